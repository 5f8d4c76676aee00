//! One service's folder: its ports, its processes, its data, its log.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::About;
use super::daemon::Process;
use super::place::Place;
use super::root::{Root, User};

/// How much of a log is told when a start fails.
const LOG_LINES: usize = 30;

pub(super) struct Home {
    pub(super) dir: PathBuf,
    pub(super) ports: Vec<u16>,
    pub(super) processes: Vec<Process>,
    /// The installation whose programs it runs.
    pub(super) root: Root,
    owner: Option<User>,
}

impl Home {
    /// The files and processes of the last start; empty when there was none.
    pub(super) fn open(place: &Place, about: &About) -> Result<Self> {
        let root = place.programs(about);
        let dir = match &root {
            Root::Machine => place.root.join(about.name),
            Root::Release { folder, .. } => folder.join("srv").join(about.name),
        };
        Ok(Self {
            owner: root.user(about.user)?,
            ..Self::read(dir, root)
        })
    }

    /// The folder of another service of the same place, to read.
    pub(super) fn sibling(&self, name: &str) -> Self {
        Self::read(self.dir.with_file_name(name), self.root.clone())
    }

    fn read(dir: PathBuf, root: Root) -> Self {
        let run = fs::read_to_string(dir.join("run.json")).unwrap_or_default();
        let (ports, processes) = read_run(&run);
        Self {
            dir,
            ports,
            processes,
            root,
            owner: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.processes.is_empty() && self.processes.iter().all(|process| process.is_alive())
    }

    /// The first port, which is the one tests connect to.
    pub(super) fn port(&self) -> u16 {
        self.port_at(0)
    }

    pub(super) fn port_at(&self, index: usize) -> u16 {
        self.ports.get(index).copied().unwrap_or_default()
    }

    /// Thrown away when the service stops.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Makes the folder and, in it, empty data for the service's user.
    pub(super) fn create(&self) -> Result<()> {
        self.make(&self.dir)?;
        self.drop_data()?;
        self.make(&self.data())?;
        File::create(self.dir.join("log")).context("empty the log")?;
        Ok(())
    }

    /// Makes a folder that belongs to the service's user.
    pub(super) fn make(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        self.give(folder)
    }

    /// Writes a file the service's user can read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.dir.join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        self.give(&file)?;
        Ok(file)
    }

    fn give(&self, path: &Path) -> Result<()> {
        let Some(user) = self.owner else {
            return Ok(());
        };
        chown(path, Some(user.uid), Some(user.gid)).with_context(|| format!("give away {}", path.display()))
    }

    /// A program of the service.
    pub(super) fn find(&self, program: &str) -> Result<PathBuf> {
        self.root.find(program).with_context(|| format!("find {program}"))
    }

    /// A program to run as the service's user, in the service's folder.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.root.command(program.as_ref(), self.owner, &self.dir);
        command.env("HOME", &self.dir);
        command
    }

    /// Starts a program that outlives us: leader of its own group, its output in the log.
    pub(super) fn spawn(&self, command: &mut Command) -> Result<Process> {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.dir.join("log"))
            .context("open the log")?;
        let errors = log.try_clone().context("open the log")?;
        let program = command.get_program().display().to_string();
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("run {program}"))?;
        Process::of(child.id()).with_context(|| format!("{program} ended at once:\n{}", self.log_end()))
    }

    /// The last lines of the log.
    pub(super) fn log_end(&self) -> String {
        let log = fs::read(self.dir.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines
            .get(lines.len().saturating_sub(LOG_LINES)..)
            .unwrap_or_default()
            .join("\n")
    }

    /// Stops the processes, last started first, and drops the data.
    pub(super) fn stop(&mut self, signal: &str) -> Result<()> {
        for process in self.processes.drain(..).rev() {
            process.stop(signal);
        }
        if !self.dir.exists() {
            return Ok(());
        }
        self.drop_data()?;
        self.save()
    }

    fn drop_data(&self) -> Result<()> {
        let data = self.data();
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("drop {}", data.display()))?;
        }
        Ok(())
    }

    pub(super) fn save(&self) -> Result<()> {
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|process| json!({ "pid": process.pid, "started": process.started }))
            .collect();
        let run = json!({ "ports": self.ports, "processes": processes });
        fs::write(self.dir.join("run.json"), run.to_string()).context("write run.json")
    }
}

/// The ports and processes a run file tells of; nothing when it cannot be read.
fn read_run(text: &str) -> (Vec<u16>, Vec<Process>) {
    let run: Value = serde_json::from_str(text).unwrap_or_default();
    let list = |key: &str| run.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let ports = list("ports")
        .iter()
        .filter_map(|port| u16::try_from(port.as_u64()?).ok())
        .collect();
    let processes = list("processes")
        .iter()
        .filter_map(|process| {
            Some(Process {
                pid: process["pid"].as_u64()?.try_into().ok()?,
                started: process["started"].as_u64()?,
            })
        })
        .collect();
    (ports, processes)
}

#[cfg(test)]
mod tests {
    use super::{Process, read_run};

    #[test]
    fn a_run_file_tells_ports_and_processes() {
        let text = r#"{"ports":[20001,20002],"processes":[{"pid":7,"started":9}]}"#;
        assert_eq!(
            read_run(text),
            (vec![20_001, 20_002], vec![Process { pid: 7, started: 9 }])
        );
    }

    #[test]
    fn a_broken_run_file_tells_nothing() {
        assert_eq!(read_run("{"), (vec![], vec![]));
    }
}
