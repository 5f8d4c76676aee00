//! Numbers and how they are shown.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use crate::cpu;

/// One line of a result, for a person.
#[derive(Debug)]
pub struct Figure {
    /// The quantity.
    pub what: String,
    /// Its value with the unit.
    pub value: String,
    /// A goal or a remark; may be empty.
    pub note: String,
}

impl Figure {
    pub(super) fn new(what: impl Into<String>, value: String, note: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            value,
            note: note.into(),
        }
    }
}

/// The machine and the database of a measurement.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// Address of the store, without its password.
    pub store: String,
    /// Name and version of the database.
    pub version: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Load of the machine in the minute before the bench.
    pub load_average: Option<f64>,
    /// Command that repeats the bench.
    pub repeat: String,
}

impl Setting {
    /// Looks at this machine. Call it before the bench: the bench itself is load.
    pub fn new(store: String, version: String, repeat: String) -> Self {
        Self {
            store,
            version,
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            load_average: cpu::load_average(),
            repeat,
        }
    }
}

/// The result of a bench, for programs and for people.
#[derive(Debug)]
pub struct Outcome {
    document: Value,
    figures: Vec<Figure>,
}

impl Outcome {
    pub(super) fn new(result: &impl Serialize, figures: Vec<Figure>) -> Result<Self> {
        Ok(Self {
            document: serde_json::to_value(result)?,
            figures,
        })
    }

    /// The result for programs, with its setting under `on`.
    pub fn document(mut self, on: &Setting) -> Result<Value> {
        if let Some(fields) = self.document.as_object_mut() {
            fields.insert("on".to_owned(), serde_json::to_value(on)?);
        }
        Ok(self.document)
    }

    /// The result for people, line by line.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }
}

/// From this part of all cores on, the CPU is the limit.
const CPU_IS_LIMIT: f64 = 0.85;

/// Names the limit of a throughput: the CPU and the part that uses most of it, or `waiting` if the CPU is not the limit. CPU times
/// are in percent of one core.
pub(super) fn limited_by(parts: &[(f64, &str)], all: f64, waiting: &str) -> String {
    let used: f64 = parts.iter().map(|(percent, _)| percent).sum();
    if used < CPU_IS_LIMIT * all {
        return format!("{waiting}: {used:.0} of {all:.0} % CPU are used");
    }
    let most = parts.iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let (percent, name) = most.copied().unwrap_or_default();
    format!("the CPU: {used:.0} of {all:.0} % are used, most of it ({percent:.0} %) by {name}")
}

/// The value in the middle; sorts.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    percentile(values, 0.5)
}

/// The value that this part of the sorted values does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a length"
)]
pub(super) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let check = |count: u32, part: f64, expected: f64| {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            assert!((percentile(&values, part) - expected).abs() < 1e-9, "{count} {part}");
        };
        check(1, 0.5, 1.0);
        check(100, 0.5, 50.0);
        check(100, 0.99, 99.0);
        check(101, 0.5, 51.0);
        check(10, 0.99, 10.0);
        assert!(percentile(&[], 0.5).is_nan());
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
