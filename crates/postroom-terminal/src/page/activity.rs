//! What users did: stored events, and what operators do with them.

use anyhow::Result;
use postroom::operate::counted;
use postroom_activity::forget::Forgotten;
use postroom_activity::pii_check::Checked;
use postroom_activity::query::StoredEvent;
use postroom_activity::redispatch::Redispatch;
use postroom_activity::reprocess::Reprocess;
use time::format_description::well_known::Rfc3339;

use crate::listing::Listing;
use crate::output::print;

/// Prints stored events.
pub fn events(events: &[StoredEvent]) -> Result<()> {
    if events.is_empty() {
        return print("no stored event matches");
    }
    let mut listing = Listing::new(&["occurred at", "event", "#member", "source", "properties"]);
    for stored in events {
        let event = &stored.event;
        let member = event.member_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        listing.row([
            event.occurred_at.format(&Rfc3339)?.into(),
            format!("{} {}", event.event_name, event.event_version).into(),
            member.into(),
            event.source.name().into(),
            serde_json::to_string(&event.properties)?.into(),
        ]);
    }
    print(listing.text())
}

/// Prints redispatches and their progress.
pub fn redispatches(redispatches: &[Redispatch]) -> Result<()> {
    if redispatches.is_empty() {
        return print("there is no redispatch");
    }
    let mut listing = Listing::new(&["id", "sink", "state", "#sent", "#progress", "by"]);
    for one in redispatches {
        listing.row([
            one.redispatch_id.as_str().into(),
            one.sink_type.as_str().into(),
            one.state.name().into(),
            one.sent.into(),
            percent(one.progress).into(),
            one.created_by.as_str().into(),
        ]);
    }
    print(listing.text())
}

/// Prints reprocesses and their progress.
pub fn reprocesses(reprocesses: &[Reprocess]) -> Result<()> {
    if reprocesses.is_empty() {
        return print("there is no reprocess");
    }
    let mut listing = Listing::new(&[
        "id",
        "state",
        "#inserted",
        "#updated",
        "#unchanged",
        "#failed",
        "#progress",
        "by",
    ]);
    for one in reprocesses {
        listing.row([
            one.reprocess_id.as_str().into(),
            one.state.name().into(),
            one.inserted.into(),
            one.updated.into(),
            one.unchanged.into(),
            one.failed.into(),
            percent(one.progress).into(),
            one.created_by.as_str().into(),
        ]);
    }
    print(listing.text())
}

/// A part as people write it.
fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Prints what was deleted of a member.
pub fn forgotten(forgotten: &Forgotten) -> Result<()> {
    print(format!(
        "deleted {} and {}; removed the content of {} and {}. Copies in the outbox leave it with retention.outbox and are not archived",
        counted(forgotten.events, "event", "events"),
        counted(forgotten.archived, "archived copy", "archived copies"),
        counted(forgotten.waiting, "waiting copy", "waiting copies"),
        counted(forgotten.dead_letters, "dead letter", "dead letters"),
    ))
}

/// Prints what the PII firewall would remove from a file.
pub fn pii(checked: &Checked) -> Result<()> {
    let lines = counted(checked.lines as u64, "line", "lines");
    if checked.found.is_empty() {
        return print(format!("{lines}: nothing would be removed"));
    }
    let mut listing = Listing::new(&["#line", "kind", "#count", "place"]);
    for found in &checked.found {
        listing.row([
            found.line.into(),
            found.kind.into(),
            found.count.into(),
            found.place.as_str().into(),
        ]);
    }
    let values = counted(checked.total(), "value", "values");
    print(format!(
        "{}\n{lines}: {values} would be removed or hashed",
        listing.text()
    ))
}
