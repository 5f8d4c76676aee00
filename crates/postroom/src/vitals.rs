//! Vitals: how each line of a relay is doing, for health checks that mean progress.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How a relay's lines are doing. Shared with whoever answers health checks.
#[derive(Debug, Default)]
pub struct Vitals {
    lines: Mutex<BTreeMap<String, Vital>>,
    pulse: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug, Default)]
struct Vital {
    /// Since when entries wait without any being settled.
    behind_since: Option<Instant>,
    /// Why the destination cannot be reached.
    down: Option<String>,
    delivered: u64,
}

/// A line as a health check shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Route and shard.
    pub name: String,
    /// For how long entries have waited without progress.
    pub behind_s: Option<f64>,
    /// Why the destination cannot be reached.
    pub down: Option<String>,
    /// Entries delivered since the start of the process.
    pub delivered: u64,
}

impl Vitals {
    /// Every line that this process works now.
    pub fn lines(&self) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .map(|(name, vital)| Line {
                name: name.clone(),
                behind_s: vital.behind_since.map(|since| since.elapsed().as_secs_f64()),
                down: vital.down.clone(),
                delivered: vital.delivered,
            })
            .collect()
    }

    /// What keeps this process from being ready: the store unreachable, or entries that wait although their destination is up.
    pub fn troubles(&self, patience: Duration) -> Vec<String> {
        let mut troubles = Vec::new();
        let pulse = *self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        match pulse {
            None => troubles.push("the store has not answered yet".to_owned()),
            Some(at) if at.elapsed() > patience => {
                troubles.push(format!(
                    "the store has not answered for {:.0} s",
                    at.elapsed().as_secs_f64()
                ));
            }
            Some(_) => {}
        }
        for line in self.lines() {
            if line.down.is_none() && line.behind_s.is_some_and(|behind| behind > patience.as_secs_f64()) {
                let behind = line.behind_s.unwrap_or_default();
                troubles.push(format!(
                    "{}: entries wait for {behind:.0} s without progress",
                    line.name
                ));
            }
        }
        troubles
    }

    pub(crate) fn pulsed(&self) {
        *self.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn moved(&self, line: &str, delivered: u64) {
        self.change(line, |vital| {
            vital.behind_since = None;
            vital.down = None;
            vital.delivered += delivered;
        });
    }

    pub(crate) fn behind(&self, line: &str, down: Option<&str>) {
        self.change(line, |vital| {
            vital.behind_since.get_or_insert_with(Instant::now);
            vital.down = down.map(str::to_owned);
        });
    }

    pub(crate) fn left(&self, line: &str) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).remove(line);
    }

    fn change(&self, line: &str, change: impl FnOnce(&mut Vital)) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.contains_key(line) {
            lines.insert(line.to_owned(), Vital::default());
        }
        if let Some(vital) = lines.get_mut(line) {
            change(vital);
        }
    }
}
