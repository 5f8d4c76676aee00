//! CPU time, from Linux's `/proc`.

use std::collections::BTreeMap;
use std::fs;

/// Ticks of `/proc/*/stat` in a second: the same on every Linux that programs can be built for today.
const TICKS_PER_S: f64 = 100.0;

/// CPU time of some processes at one moment, in ticks by process id.
#[derive(Debug, PartialEq)]
pub(super) struct Cpu(BTreeMap<u32, u64>);

impl Cpu {
    /// Percent of one core since an earlier moment. Processes that ended in between are left out.
    pub(super) fn percent_since(&self, before: &Self, seconds: f64) -> f64 {
        let used = |(id, ticks): (&u32, &u64)| ticks.saturating_sub(before.0.get(id).copied().unwrap_or(0));
        let ticks: u64 = self.0.iter().map(used).sum();
        ticks as f64 / TICKS_PER_S / seconds * 100.0
    }
}

/// This process.
pub(super) fn own() -> Option<Cpu> {
    let stat = Stat::read("self")?;
    Some(Cpu(BTreeMap::from([(stat.id, stat.ticks)])))
}

/// The thread that asks.
pub(super) fn thread() -> Option<Cpu> {
    let stat = Stat::read("thread-self")?;
    Some(Cpu(BTreeMap::from([(stat.id, stat.ticks)])))
}

/// All processes of this machine together.
pub(super) fn machine() -> Option<Cpu> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks = parse_machine(stat.lines().next()?)?;
    Some(Cpu(BTreeMap::from([(0, ticks)])))
}

/// The ticks that the first line of `/proc/stat` counts, without those in which nothing ran.
fn parse_machine(line: &str) -> Option<u64> {
    let fields = line.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the times of guests are part of the first two.
    let busy = ticks.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4));
    Some(busy.map(|(_, ticks)| ticks).sum())
}

/// The PostgreSQL server whose backend has this process id: its postmaster and all its children, whatever database they
/// work for.
pub(super) fn postgres(backend: &str) -> Option<Cpu> {
    let postmaster = Stat::read(backend).filter(|stat| stat.name == "postgres")?.parent;
    let family = all().filter(|stat| stat.id == postmaster || stat.parent == postmaster);
    Some(Cpu(family.map(|stat| (stat.id, stat.ticks)).collect()))
}

/// The MySQL or MariaDB server that wrote this file, if it is on this machine.
pub(super) fn mysql(pid_file: &str) -> Option<Cpu> {
    let id = fs::read_to_string(pid_file).ok()?;
    let stat =
        Stat::read(id.trim()).filter(|stat| stat.name.starts_with("mariadbd") || stat.name.starts_with("mysqld"))?;
    Some(Cpu(BTreeMap::from([(stat.id, stat.ticks)])))
}

/// The load average of the last minute.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn all() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Stat::read(entry.file_name().to_str()?))
}

/// The fields of `/proc/<id>/stat` that are used.
#[derive(Debug, PartialEq)]
struct Stat {
    id: u32,
    name: String,
    parent: u32,
    /// In user mode and in the kernel.
    ticks: u64,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// The name stands in parentheses and may hold anything, also spaces and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(") ")?;
        let (id, name) = head.split_once(" (")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            id: id.parse().ok()?,
            name: name.to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            ticks: number(11)? + number(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name_holds() {
        let stat = Stat::parse("42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 99").unwrap();
        assert_eq!(
            stat,
            Stat {
                id: 42,
                name: "a (b) c".into(),
                parent: 7,
                ticks: 200
            }
        );
        assert_eq!(Stat::parse("42"), None);
    }

    #[test]
    fn the_machine_is_busy_when_it_neither_idles_nor_waits() {
        assert_eq!(parse_machine("cpu  100 20 30 4000 500 6 7 8 90 1"), Some(171));
        assert_eq!(parse_machine("cpu0 1 2 3"), None);
    }

    #[test]
    fn percent_counts_new_processes_and_forgets_those_that_ended() {
        let before = Cpu(BTreeMap::from([(1, 100), (2, 100)]));
        let after = Cpu(BTreeMap::from([(1, 150), (3, 50)]));
        assert!((after.percent_since(&before, 10.0) - 10.0).abs() < 1e-9);
    }
}
