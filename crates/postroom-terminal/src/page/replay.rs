//! Replays, and what one would deliver.

use anyhow::Result;
use postroom::operate::counted;
use postroom::replay::{Preview, Replay, ReplayStatus};

use crate::age::with_date;
use crate::listing::{Cell, Listing};
use crate::output::print;

/// Prints the number of events that the replay would deliver again.
pub fn preview(preview: &Preview, order: &Replay) -> Result<()> {
    let seconds = preview.entries.div_ceil(u64::from(order.per_second.max(1)));
    print(format!(
        "{} of entries {} to {} would be delivered to {} again, in {} or more; nothing was begun",
        counted(preview.entries, "event", "events"),
        preview.first_id,
        preview.last_id,
        order.route,
        counted(seconds, "second", "seconds")
    ))
}

/// Prints these replays.
pub fn list(replays: &[ReplayStatus]) -> Result<()> {
    if replays.is_empty() {
        return print("there are no replays");
    }
    let mut listing = Listing::new(&[
        "#replay", "route", "state", "#events", "#entry", "#of", "#rate", "begun", "by",
    ]);
    for replay in replays {
        listing.row(row(replay));
    }
    print(listing.text())
}

fn row(replay: &ReplayStatus) -> [Cell; 9] {
    [
        replay.replay_id.into(),
        replay.route.as_str().into(),
        replay.state.into(),
        replay.parked.into(),
        replay.next_id.into(),
        replay.until_id.into(),
        u64::from(replay.per_second).into(),
        with_date(replay.created_at).into(),
        replay.created_by.as_str().into(),
    ]
}
