//! Stored events as text: JSON, or comma-separated values (RFC 4180).

use postroom::{Error, ErrorKind, Result};
use sea_orm::ConnectionTrait;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::query::{self, Cursor, EventFilter, PAGE_MAX, StoredEvent};
use crate::tables::COLUMNS;

/// The form of exported events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON document per line.
    Jsonl,
    /// Comma-separated values, behind a line of titles.
    Csv,
}

/// Reads the events that match, newest first, and writes them as text. It holds one page of them at a time.
#[derive(Debug)]
pub struct Export {
    filter: EventFilter,
    format: Format,
    place: Place,
}

/// How far an export is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Beginning,
    After(Cursor),
    End,
}

impl Export {
    /// An export of the events that match.
    pub fn new(filter: EventFilter, format: Format) -> Self {
        let place = Place::Beginning;
        Self { filter, format, place }
    }

    /// The lines of the next page; `None` after the last one.
    pub async fn next(&mut self, db: &impl ConnectionTrait) -> Result<Option<String>> {
        let (mut text, after) = match (self.place, self.format) {
            (Place::Beginning, Format::Jsonl) => (String::new(), None),
            (Place::Beginning, Format::Csv) => (format!("{}\n", csv_titles()), None),
            (Place::After(cursor), _) => (String::new(), Some(cursor)),
            (Place::End, _) => return Ok(None),
        };
        let page = query::find(db, &self.filter, after, PAGE_MAX).await?;
        for stored in &page.events {
            text.push_str(&self.format.line(stored)?);
            text.push('\n');
        }
        self.place = page.next.map_or(Place::End, Place::After);
        Ok(Some(text))
    }
}

impl Format {
    fn line(self, stored: &StoredEvent) -> Result<String> {
        match self {
            Self::Jsonl => Ok(serde_json::to_string(stored)?),
            Self::Csv => csv_line(stored),
        }
    }
}

/// The line of titles: the columns of the table.
fn csv_titles() -> String {
    let columns = std::iter::once("id").chain(COLUMNS).chain(["created_at"]);
    columns.collect::<Vec<_>>().join(",")
}

/// The line of an event, in the order of [`csv_titles`].
fn csv_line(stored: &StoredEvent) -> Result<String> {
    let event = &stored.event;
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let values: [String; COLUMNS.len()] = [
        event.event_id.clone(),
        event.event_name.clone(),
        event.event_version.clone(),
        written(event.occurred_at)?,
        event.member_id.map(|id| id.to_string()).unwrap_or_default(),
        optional(&event.anonymous_id),
        optional(&event.session_id),
        event.source.name().to_owned(),
        optional(&event.request_path),
        optional(&event.request_method),
        optional(&event.device_id),
        optional(&event.platform),
        optional(&event.app_version),
        optional(&event.locale),
        serde_json::to_string(&event.properties)?,
    ];
    let fields = [stored.id.to_string()].into_iter().chain(values);
    let fields = fields.chain([written(stored.created_at)?]);
    Ok(fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(","))
}

fn written(at: OffsetDateTime) -> Result<String> {
    at.format(&Rfc3339)
        .map_err(|source| Error::caused(ErrorKind::Failed, "write a time", source))
}

/// A field in quotes if it needs them. A text that a spreadsheet would run as a formula gets an apostrophe before it.
fn quoted(field: &str) -> String {
    let is_number = || field.parse::<f64>().is_ok();
    let is_formula = field.starts_with(['=', '+', '@', '\t', '\r']) || (field.starts_with('-') && !is_number());
    let field = if is_formula {
        format!("'{field}")
    } else {
        field.to_owned()
    };
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_and_no_formula() {
        for (field, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "'=1+1"),
            ("-5", "-5"),
            ("-a", "'-a"),
            ("", ""),
        ] {
            assert_eq!(quoted(field), expected);
        }
    }

    #[test]
    fn a_line_has_a_field_for_each_title() {
        let stored = StoredEvent {
            id: 7,
            created_at: OffsetDateTime::UNIX_EPOCH,
            event: crate::event::ActivityEvent::new("page.viewed", "v1"),
        };
        let line = csv_line(&stored).unwrap();
        assert_eq!(line.split(',').count(), csv_titles().split(',').count(), "{line}");
        assert!(
            line.starts_with("7,") && line.ends_with(",1970-01-01T00:00:00Z"),
            "{line}"
        );
    }
}
