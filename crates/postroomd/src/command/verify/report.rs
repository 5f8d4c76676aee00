//! What `postroom verify` has done and found, as people and programs read it.

use postroom::operate::counted;
use postroom_testkit::Findings;
use postroom_testkit::failures::Counts;
use serde::Serialize;

/// What was done and found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) store: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) through: Option<String>,
    pub(super) reader: String,
    /// Whether this reader must stay exact on this database.
    pub(super) is_right: bool,
    pub(super) seconds: u64,
    pub(super) writers: u32,
    pub(super) commits: u64,
    pub(super) rollbacks: u64,
    pub(super) savepoint_rollbacks: u64,
    pub(super) relay_kills: u32,
    #[serde(flatten)]
    pub(super) findings: Findings,
    /// Of a run with failures: how often each happened.
    #[serde(flatten)]
    pub(super) failures: Option<Counts>,
}

impl Report {
    pub(super) fn page(&self) -> String {
        let through = self.through.as_ref().map(|broker| format!(" through {broker}"));
        format!(
            "{}: {} on {}{}\n\
             {} for {} s: {}, {}, {} rolled back; the relay was killed {}\n\
             {}",
            self.verdict(),
            self.reader,
            self.store,
            through.unwrap_or_default(),
            counted(self.writers.into(), "writer", "writers"),
            self.seconds,
            counted(self.commits, "commit", "commits"),
            counted(self.rollbacks, "rollback", "rollbacks"),
            counted(self.savepoint_rollbacks, "savepoint", "savepoints"),
            counted(self.relay_kills.into(), "time", "times"),
            self.found() + &self.failures.map_or_else(String::new, |counts| failures(&counts))
        )
    }

    /// What a run with failures must bring about to prove anything, and did not.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        self.failures.map_or_else(Vec::new, |counts| counts.missing())
    }

    /// A reader that is known to be wrong is not exact for having been lucky.
    fn verdict(&self) -> &'static str {
        match (self.findings.is_exact(), self.is_right) {
            (true, true) if !self.missing().is_empty() => "proves nothing",
            (true, true) => "exact",
            (true, false) => "not caught",
            (false, true) => "BROKEN",
            (false, false) => "caught",
        }
    }

    fn found(&self) -> String {
        let findings = self.findings;
        format!(
            "{}: {} lost, {} phantom, {}, {}",
            counted(findings.events, "event", "events"),
            findings.lost,
            findings.phantom,
            counted(findings.double_effects, "double effect", "double effects"),
            counted(findings.order_violations, "order violation", "order violations"),
        )
    }
}

/// Three lines about what happened.
fn failures(counts: &Counts) -> String {
    format!(
        "\nrelays: {} interrupted, {} paused past the lease\n\
         attempts: {} refused, {} rejected, {}, {}, {} unavailable\n\
         entries: {} parked, {} held, {} retried, {} discarded, {} replayed, {} scheduled, {} cancelled",
        counts.interrupted,
        counts.paused,
        counts.refused,
        counts.rejected,
        counted(counts.panics, "panic", "panics"),
        counted(counts.hangs, "hang", "hangs"),
        counts.unavailable,
        counts.parked,
        counts.held,
        counts.retried,
        counts.discarded,
        counts.replayed,
        counts.scheduled,
        counts.cancelled,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lost: u64, is_right: bool) -> Report {
        Report {
            store: "sqlite://a".to_owned(),
            through: None,
            reader: "own".to_owned(),
            is_right,
            seconds: 1,
            writers: 1,
            commits: 2,
            rollbacks: 1,
            savepoint_rollbacks: 0,
            relay_kills: 1,
            findings: Findings {
                events: 2,
                lost,
                ..Findings::default()
            },
            failures: None,
        }
    }

    #[test]
    fn a_run_in_which_nothing_failed_proves_nothing() {
        let check = |lost, counts: Counts, verdict: &str| {
            let report = Report {
                failures: Some(counts),
                ..report(lost, true)
            };
            assert!(report.page().starts_with(verdict), "{}", report.page());
        };
        let happened = Counts {
            interrupted: 1,
            parked: 1,
            held: 1,
            retried: 1,
            discarded: 1,
            replayed: 1,
            ..Counts::default()
        };
        check(0, happened, "exact: ");
        check(1, happened, "BROKEN: ");
        check(
            0,
            Counts {
                interrupted: 0,
                ..happened
            },
            "proves nothing: ",
        );
        check(
            1,
            Counts {
                interrupted: 0,
                ..happened
            },
            "BROKEN: ",
        );
    }

    #[test]
    fn the_counts_stand_beside_the_findings_in_json() {
        let report = Report {
            failures: Some(Counts {
                held: 3,
                ..Counts::default()
            }),
            ..report(0, true)
        };
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(
            (&json["events"], &json["held"], &json["lost"]),
            (&2.into(), &3.into(), &0.into())
        );
        let json = serde_json::to_value(self::report(0, true)).unwrap();
        assert!(json.get("held").is_none(), "{json}");
    }

    #[test]
    fn a_verdict_is_about_what_the_reader_should_do() {
        let check = |lost, is_right, expected: &str| {
            assert_eq!(report(lost, is_right).page(), expected);
        };
        let did = "own on sqlite://a\n1 writer for 1 s: 2 commits, 1 rollback, 0 savepoints rolled back; \
                   the relay was killed 1 time\n2 events";
        let rest = "0 phantom, 0 double effects, 0 order violations";
        check(0, true, &format!("exact: {did}: 0 lost, {rest}"));
        check(1, true, &format!("BROKEN: {did}: 1 lost, {rest}"));
        check(0, false, &format!("not caught: {did}: 0 lost, {rest}"));
        check(1, false, &format!("caught: {did}: 1 lost, {rest}"));
    }
}
