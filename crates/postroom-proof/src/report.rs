//! The result of `postroom verify` for people and programs.

use postroom::operate::counted;
use serde::Serialize;

use crate::failures::Counts;
use crate::history::Findings;

/// The result of a run, as it is shown.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Address of the store, without its password.
    pub store: String,
    /// Address of the broker, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// Name of the reader.
    pub reader: String,
    /// Whether this reader must stay exact on this database.
    pub is_right: bool,
    /// Duration of the writing.
    pub seconds: u64,
    /// Number of writers.
    pub writers: u32,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Savepoints rolled back.
    pub savepoint_rollbacks: u64,
    /// Number of times that a relay process was killed.
    pub relay_kills: u32,
    /// Result of the checker.
    #[serde(flatten)]
    pub findings: Findings,
    /// Number of times that each failure happened, in a run with failures.
    #[serde(flatten)]
    pub failures: Option<Counts>,
}

impl Report {
    /// The report for people.
    pub fn page(&self) -> String {
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

    /// The reason why the run did not end well, if it did not.
    pub fn complaint(&self) -> Option<String> {
        match (self.findings.is_exact(), self.is_right) {
            (true, true) => self.complaint_about_missing(),
            (true, false) => {
                Some("the broken reader was not caught this time; run it longer or with more writers".to_owned())
            }
            (false, true) => Some("the contract was broken: report it, with what is printed here".to_owned()),
            (false, false) => None,
        }
    }

    fn complaint_about_missing(&self) -> Option<String> {
        let missing = self.missing();
        (!missing.is_empty()).then(|| {
            format!(
                "nothing was {}, so this run proves nothing; run it longer, with --seconds {}",
                missing.join(", "),
                self.seconds.saturating_mul(3).max(60)
            )
        })
    }

    /// Failures that must happen for a run with failures to prove anything, and did not.
    fn missing(&self) -> Vec<&'static str> {
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
            assert_eq!(report.complaint().is_none(), verdict == "exact: ", "{verdict}");
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
            let report = report(lost, is_right);
            assert_eq!(report.page(), expected);
            assert_eq!(report.complaint().is_none(), (lost == 0) == is_right, "{expected}");
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
