//! House rules no compiler checks: sizes, names, language, migrations, machine paths, unused dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::language;
use crate::word::contains_word;
use crate::workspace::{Crate, Workspace};

const LINES_MAX: usize = 600;
const TEST_LINES_MAX: usize = 900;
/// The sources of the program, and how many lines they may have without tests: it is configuration, command line and signals.
const PROGRAM: &str = "crates/postroomd/src";
const PROGRAM_LINES_MAX: usize = 6_000;

/// Names that say nothing; neither a file nor a module carries one, alone or as its last word.
const BANNED: &[&str] = &[
    "utils",
    "common",
    "helpers",
    "misc",
    "base",
    "core",
    "types",
    "manager",
    "service",
    "impl",
    "processor",
    "data",
    "info",
];

/// Top folders of the machines we work on; a path that begins there works nowhere else.
const MACHINE_FOLDERS: &[&str] = &["work", "root"];

/// Crates whose migrations are the same steps in three dialects.
const STORES: &[&str] = &[
    "crates/postroom-postgres",
    "crates/postroom-mysql",
    "crates/postroom-sqlite",
];

/// Libraries that run inside other programs: their users may not have the program `postroom`.
const LIBRARIES: &[&str] = &[
    "crates/postroom",
    "crates/postroom-postgres",
    "crates/postroom-mysql",
    "crates/postroom-sqlite",
];

/// The commands of the program.
const COMMANDS: &[&str] = &[
    "up", "serve", "migrate", "emit", "tail", "status", "why", "dead", "replay", "pause", "resume", "forget", "config",
    "doctor", "verify", "bench", "catalog", "topics",
];

/// Everything that breaks a rule, one line each.
pub(crate) fn problems(workspace: &Workspace) -> Result<Vec<String>> {
    let files = workspace.files()?;
    let mut problems = Vec::new();
    let mut sources = BTreeMap::new();
    for file in files.iter().filter(|file| file.as_path() != Path::new("Cargo.lock")) {
        let Some(text) = workspace.text(file)? else {
            continue;
        };
        problems.extend(machine_paths(file, &text));
        if file.extension() == Some(OsStr::new("rs")) {
            problems.extend(too_long(file, &text));
            problems.extend(banned_names(file, &text));
            problems.extend(commands_in_library(file, &text));
            sources.insert(file.clone(), text);
        }
    }
    problems.extend(language::problem(&sources));
    problems.extend(too_large_program(&sources));
    problems.extend(uneven_migrations(&files));
    problems.extend(
        workspace
            .crates
            .iter()
            .flat_map(|member| unused_dependencies(member, &sources)),
    );
    Ok(problems)
}

fn too_long(file: &Path, text: &str) -> Option<String> {
    let is_test = file.components().any(|part| part.as_os_str() == "tests");
    let limit = if is_test { TEST_LINES_MAX } else { LINES_MAX };
    let lines = text.lines().count();
    (lines > limit).then(|| format!("{}: {lines} lines; the limit is {limit}", file.display()))
}

fn too_large_program(sources: &BTreeMap<PathBuf, String>) -> Option<String> {
    let is_own = |file: &Path| file.starts_with(PROGRAM) && !file.ends_with("tests.rs");
    let own = sources.iter().filter(|(file, _)| is_own(file));
    // The tests of a file are its last module.
    let lines: usize = own
        .map(|(_, text)| text.lines().take_while(|line| *line != "#[cfg(test)]").count())
        .sum();
    (lines > PROGRAM_LINES_MAX).then(|| {
        format!(
            "{PROGRAM}: {lines} lines without tests; the limit is {PROGRAM_LINES_MAX}. Move code that is neither configuration nor \
             command line nor signals to the crate of its concept"
        )
    })
}

fn banned_names(file: &Path, text: &str) -> Vec<String> {
    let parts = file.iter().filter_map(|part| Path::new(part).file_stem()?.to_str());
    let modules = text.lines().filter_map(declared_module);
    parts
        .chain(modules)
        .filter(|name| BANNED.contains(&name.rsplit(['_', '-']).next().unwrap_or(name)))
        .map(|name| format!("{}: the name `{name}` says nothing", file.display()))
        .collect()
}

/// The name in `mod name;` or `pub(crate) mod name {`.
fn declared_module(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let name = line.trim_start().strip_prefix("mod ")?;
    Some(name.trim_end_matches([' ', '{', '}', ';']))
}

fn machine_paths(file: &Path, text: &str) -> Vec<String> {
    let is_machine_path = |line: &str| {
        MACHINE_FOLDERS
            .iter()
            .any(|folder| begins_path(line, &format!("/{folder}/")))
    };
    text.lines()
        .zip(1..)
        .filter(|(line, _)| is_machine_path(line))
        .map(|(_, number)| format!("{}:{number}: a path of one machine", file.display()))
        .collect()
}

/// Whether `start` stands in the line as the beginning of a path, not in the middle of one.
fn begins_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line.get(..at).and_then(|head| head.chars().next_back());
        !before.is_some_and(|letter| letter.is_alphanumeric() || "._-~})>*".contains(letter))
    })
}

/// Commands of the program in the sources of a library: a `NextStep` names the operation instead.
fn commands_in_library(file: &Path, text: &str) -> Vec<String> {
    let is_library = LIBRARIES
        .iter()
        .any(|library| file.starts_with(Path::new(library).join("src")));
    let names_command = |line: &str| {
        line.split("postroom ").skip(1).any(|rest| {
            let word = rest
                .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .next();
            word.is_some_and(|word| COMMANDS.contains(&word))
        })
    };
    text.lines()
        .zip(1..)
        .filter(|(line, _)| is_library && names_command(line))
        .map(|(_, number)| format!("{}:{number}: a library names a command of the program", file.display()))
        .collect()
}

fn uneven_migrations(files: &[PathBuf]) -> Vec<String> {
    let migrations = |store: &str| -> BTreeSet<&str> {
        let folder = Path::new(store).join("migrations");
        files
            .iter()
            .filter_map(|file| file.strip_prefix(&folder).ok()?.to_str())
            .collect()
    };
    let all: BTreeSet<&str> = STORES.iter().flat_map(|store| migrations(store)).collect();
    let missing = |store: &'static &str| {
        let own = migrations(store);
        all.iter()
            .filter(move |name| !own.contains(*name))
            .map(move |name| format!("{store}: no migration {name}"))
    };
    STORES.iter().flat_map(missing).collect()
}

fn unused_dependencies(member: &Crate, sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let own: Vec<&String> = sources
        .iter()
        .filter(|(file, _)| file.starts_with(&member.folder))
        .map(|(_, text)| text)
        .collect();
    member
        .dependencies
        .iter()
        .filter(|name| !own.iter().any(|text| contains_word(text, name)))
        .map(|name| format!("{}: the dependency {name} is not used", member.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::{
        banned_names, commands_in_library, machine_paths, too_large_program, too_long, uneven_migrations,
        unused_dependencies,
    };
    use crate::workspace::Crate;

    #[test]
    fn a_file_over_its_limit_is_named() {
        let check = |file: &str, lines: usize| too_long(Path::new(file), &"\n".repeat(lines)).is_some();
        assert!(!check("crates/a/src/lib.rs", 600));
        assert!(check("crates/a/src/lib.rs", 601));
        assert!(!check("crates/a/tests/it/main.rs", 900));
        assert!(check("crates/a/tests/it/main.rs", 901));
    }

    #[test]
    fn the_program_is_counted_without_its_tests() {
        let is_too_large = |file: &str, text: String| {
            let small = ("crates/postroomd/src/main.rs".into(), "fn main() {}\n".to_owned());
            too_large_program(&BTreeMap::from([small, (file.into(), text)])).is_some()
        };
        let program = "crates/postroomd/src/config/value.rs";
        assert!(!is_too_large(program, "\n".repeat(5_999)));
        assert!(is_too_large(program, "\n".repeat(6_000)));
        assert!(!is_too_large(program, format!("#[cfg(test)]{}", "\n".repeat(6_000))));
        assert!(!is_too_large(
            "crates/postroomd/src/daemon/tests.rs",
            "\n".repeat(6_000)
        ));
        assert!(!is_too_large("crates/postroom-host/src/lib.rs", "\n".repeat(6_000)));
    }

    #[test]
    fn empty_names_are_banned_for_files_and_modules() {
        let count = |file: &str, text: &str| banned_names(Path::new(file), text).len();
        assert_eq!(count("crates/a/src/utils.rs", ""), 1);
        assert_eq!(count("crates/a/src/store_impl.rs", ""), 1);
        assert_eq!(count("crates/a-core/src/lib.rs", ""), 1);
        assert_eq!(count("crates/a/src/common/mod.rs", ""), 1);
        assert_eq!(
            count(
                "crates/a/src/lib.rs",
                "pub(crate) mod helpers;\n    mod types {\npub mod misc;"
            ),
            3
        );
        assert_eq!(
            count(
                "crates/a/src/services/database.rs",
                "mod metadata;\nmodel types;\nmod information {}"
            ),
            0
        );
    }

    #[test]
    fn a_path_of_one_machine_is_named_with_its_line() {
        let check = |line: &str| machine_paths(Path::new("a.md"), &line.replace('%', "/")).len();
        assert_eq!(check("see %work%main"), 1);
        assert_eq!(check("\"%root%.cargo\"\nok\n(%work%x)"), 2);
        assert_eq!(
            check("~%work%x example.com%root%x ${HOME}%work% a%work%b %workers% <root%>"),
            0
        );
    }

    #[test]
    fn a_library_names_no_command() {
        let count = |file: &str, text: &str| commands_in_library(Path::new(file), text).len();
        let told = "run `postroom migrate` first\nsee postroom dead list";
        assert_eq!(count("crates/postroom/src/error.rs", told), 2);
        assert_eq!(count("crates/postroom-sqlite/src/error.rs", told), 2);
        assert_eq!(count("crates/postroom-terminal/src/text.rs", told), 0);
        assert_eq!(
            count(
                "crates/postroom/src/lib.rs",
                "the tables of postroom are; postroom emits"
            ),
            0
        );
    }

    #[test]
    fn the_three_stores_have_the_same_migrations() {
        let file = |store: &str, name: &str| PathBuf::from(format!("crates/postroom-{store}/migrations/{name}"));
        let mut files: Vec<_> = ["postgres", "mysql", "sqlite"]
            .map(|store| file(store, "0001_outbox.up.sql"))
            .into();
        assert!(uneven_migrations(&files).is_empty());
        files.push(file("mysql", "0002_lease.up.sql"));
        let expected =
            ["postgres", "sqlite"].map(|store| format!("crates/postroom-{store}: no migration 0002_lease.up.sql"));
        assert_eq!(uneven_migrations(&files), expected);
    }

    #[test]
    fn a_dependency_is_used_in_its_own_crate() {
        let dependencies = vec!["serde_json".to_owned(), "uuid".to_owned()];
        let member = Crate {
            name: "a".to_owned(),
            folder: "crates/a".into(),
            dependencies,
        };
        let sources = BTreeMap::from([
            ("crates/a/src/lib.rs".into(), "use serde_json::Value;".to_owned()),
            ("crates/ab/src/lib.rs".into(), "use uuid::Uuid;".to_owned()),
        ]);
        assert_eq!(
            unused_dependencies(&member, &sources),
            ["a: the dependency uuid is not used"]
        );
    }
}
