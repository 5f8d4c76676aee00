//! Numbers and how they are shown.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use crate::command::bench::cpu;
use crate::command::bench::site::Site;
use crate::listing::{Cell, Listing};
use crate::output::{self, Paint, Tone, print, print_json};
use crate::store::Kind;

/// One line of a result, for a person.
#[derive(Debug)]
pub(super) struct Figure {
    what: String,
    value: String,
    note: String,
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

/// What was measured on.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    store: String,
    version: String,
    cores: usize,
    /// Of the minute before the bench: what else the machine was doing.
    load_average: Option<f64>,
    /// The command that repeats it.
    repeat: String,
}

impl Setting {
    pub(super) async fn of(site: &Site, flags: &str) -> Result<Self> {
        let sql = match site.kind() {
            Kind::Sqlite => include_str!("../../../sql/version.sqlite.sql"),
            Kind::Postgres => include_str!("../../../sql/version.postgres.sql"),
            Kind::Mysql => include_str!("../../../sql/version.mysql.sql"),
        };
        let version = site.text(sql, 0).await?.unwrap_or_default();
        let store = match site.is_temporary() {
            true => String::new(),
            false => format!(" --store {}", site.url()),
        };
        Ok(Self {
            store: site.url().to_string(),
            version: if version.contains("MariaDB") {
                version
            } else {
                format!("{} {version}", site.kind())
            },
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            load_average: cpu::load_average(),
            repeat: format!("postroom bench {flags}{store}"),
        })
    }
}

/// What a bench found, for programs and for people.
#[derive(Debug)]
pub(super) struct Outcome {
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

    /// Prints it, with what it was measured on.
    pub(super) fn show(mut self, on: &Setting, is_json: bool) -> Result<()> {
        if !is_json {
            return print(self.page(on));
        }
        if let Some(fields) = self.document.as_object_mut() {
            fields.insert("on".to_owned(), serde_json::to_value(on)?);
        }
        print_json(&self.document)
    }

    fn page(&self, on: &Setting) -> String {
        let mut listing = Listing::new(&["measured", "#value", "note"]);
        for figure in &self.figures {
            let value = Cell::new(Tone::Strong, &figure.value);
            listing.row([figure.what.as_str().into(), value, Cell::new(Tone::Faint, &figure.note)]);
        }
        let width = output::size().map(|(columns, _)| columns);
        format!(
            "{}\n\non {} at {}, {} cores, load average before: {}\nagain: {}",
            listing.text(width, Paint::detect()),
            on.version,
            on.store,
            on.cores,
            on.load_average
                .map_or("unknown".to_owned(), |load| format!("{load:.1}")),
            on.repeat
        )
    }
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
