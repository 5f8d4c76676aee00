//! What `postroom verify` has done and found, as people and programs read it.

use postroom::inspect::counted;
use postroom_testkit::Findings;
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
            self.found()
        )
    }

    /// A reader that is known to be wrong is not exact for having been lucky.
    fn verdict(&self) -> &'static str {
        match (self.findings.is_exact(), self.is_right) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_about_what_the_reader_should_do() {
        let check = |lost, is_right, expected: &str| {
            let report = Report {
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
            };
            assert_eq!(report.page(), expected);
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
