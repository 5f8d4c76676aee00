//! A child that is killed is gone; one that is stopped keeps still and goes on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::ErrorKind;
use postroom_proof::process::Process;

const LIMIT: Duration = Duration::from_secs(10);

/// Answers every line with the same line.
fn echo() -> Process {
    Process::run(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_killed_process_is_gone_and_cannot_be_signalled() {
    let mut process = echo();
    assert_eq!(process.status().unwrap(), None);
    let status = process.kill9().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert!(!Path::new(&format!("/proc/{}", process.pid())).exists());
    assert_eq!(process.stop().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_dropped_process_is_killed() {
    let process = echo();
    let pid = process.pid();
    drop(process);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_stopped_process_does_nothing_until_it_goes_on() {
    let mut process = echo();
    process.stop().unwrap();
    assert_eq!(state(process.pid()), 'T');
    let child = process.child();
    child.stdin.as_mut().unwrap().write_all(b"late\n").unwrap();
    let output = child.stdout.take().unwrap();
    process.cont().unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line, "late\n", "what came in the meantime is done afterwards");
}

#[tokio::test]
async fn a_process_may_end_in_order() {
    let mut process = echo();
    assert!(process.ended(Duration::from_millis(50)).await.is_err(), "it still runs");
    process.terminate().unwrap();
    assert_eq!(process.ended(LIMIT).await.unwrap().signal(), Some(15));
    let mut this = Process::spawn_self(["--list"]).unwrap();
    assert!(
        this.ended(LIMIT).await.unwrap().success(),
        "the running program once more"
    );
}

#[test]
fn a_missing_program_is_named() {
    let error = Process::spawn(Path::new("/no/such/program"), ["x"]).unwrap_err();
    assert!(error.report().contains("/no/such/program"), "{}", error.report());
}
