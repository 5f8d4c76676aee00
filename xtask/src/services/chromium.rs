//! Chromium without a window, in which the browser module is tested.

use std::env;
use std::path::PathBuf;

use crate::process;

/// The variable that names the program.
pub(super) const VARIABLE: &str = "POSTROOM_TEST_CHROMIUM_BIN";

/// Debian's programs: without a window first, because it needs fewer packages.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// The package, if no Chromium is there.
pub(super) fn missing() -> Vec<&'static str> {
    match program() {
        Some(_) => Vec::new(),
        None => vec!["chromium-headless-shell"],
    }
}

/// The program: the one that the environment names, or this machine's.
pub(super) fn program() -> Option<PathBuf> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    named.or_else(|| PROGRAMS.into_iter().find_map(process::find))
}
