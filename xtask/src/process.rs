//! Running other programs: in front of the person, for their output, or until a signal says stop.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often something awaited is looked at.
const LOOK: Duration = Duration::from_millis(100);

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on Ctrl-C and a polite kill set a flag, so that whoever started services can stop them.
pub(crate) fn watch_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&STOP)).context("watch for signals")?;
    }
    Ok(())
}

/// Whether somebody asked this program to stop.
pub(crate) fn is_interrupted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program with its output on stderr: stdout belongs to what the person asked for.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let what = describe(command);
    let status = command
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .with_context(|| format!("run {what}"))?;
    if !status.success() {
        bail!("{what}: {status}");
    }
    Ok(())
}

/// Runs a program silently; its stderr is told only when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let what = describe(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {what}"))?;
    if !output.status.success() {
        bail!(
            "{what}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of {what}"))
}

/// Whether a program runs and succeeds; nothing of it is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Runs a program in front of the person and passes a stop signal on to it and all its children.
pub(crate) fn run_until_stopped(command: &mut Command) -> Result<ExitStatus> {
    let what = describe(command);
    let child = spawn(command)?;
    wait_or_stop(child, &what)
}

/// The same, and answers the lines that it wrote to stdout, which the person sees too.
pub(crate) fn read_until_stopped(command: &mut Command) -> Result<(ExitStatus, Vec<String>)> {
    let what = describe(command);
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let output = child.stdout.take().with_context(|| format!("read {what}"))?;
    let reader = thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.inspect(|line| eprintln!("{line}")).collect()
    });
    let status = wait_or_stop(child, &what)?;
    let lines = reader.join().map_err(|_panic| anyhow!("read {what}"))?;
    Ok((status, lines))
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.stdin(Stdio::null()).process_group(0);
    command.spawn().with_context(|| format!("run {}", describe(command)))
}

fn wait_or_stop(mut child: Child, what: &str) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("wait for {what}"))? {
            return Ok(status);
        }
        if is_interrupted() {
            signal_group("TERM", child.id());
            return child.wait().with_context(|| format!("wait for {what}"));
        }
        pause(LOOK);
    }
}

/// The status of a program as our own; one that a signal ended is told as a shell tells it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Sends a signal to one process. That it is gone already is no mistake.
pub(crate) fn signal(name: &str, pid: u32) {
    send(name, &pid.to_string());
}

/// Sends a signal to a process group. That it is gone already is no mistake.
pub(crate) fn signal_group(name: &str, leader: u32) {
    send(name, &format!("-{leader}"));
}

fn send(name: &str, target: &str) {
    succeeds(Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", name, target]));
}

/// Looks again and again until `is_done`, at most `limit`; says whether it got done.
pub(crate) fn wait_until(limit: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_done() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        pause(LOOK);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no async here: this thread has nothing else to do"
)]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Finds a program on the PATH or where Debian keeps the ones for administrators.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn describe(command: &Command) -> String {
    let words: Vec<OsString> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(OsString::from)
        .collect();
    words.join(" ".as_ref()).to_string_lossy().into_owned()
}
