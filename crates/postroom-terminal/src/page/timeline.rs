//! The way of one event.

use anyhow::Result;
use postroom::Event;
use postroom::operate::{Delivery, DeliveryState, Scheduled, Timeline, counted};

use crate::age::with_date;
use crate::listing::{Cell, Listing};
use crate::output::{Paint, Tone, clean, print};

fn show_event(event: &Event, paint: Paint) -> Result<()> {
    print(format!(
        "{}  {}",
        paint.paint(Tone::Strong, &clean(&event.event_type)),
        event.id
    ))?;
    print(format!("key       {}", clean(&event.key().to_string())))?;
    print(format!("occurred  {}", with_date(event.occurred_at)))
}

/// Prints an event that waits for its time.
pub fn show_scheduled(scheduled: &Scheduled) -> Result<()> {
    show_event(&scheduled.event, Paint::detect())?;
    print(format!(
        "scheduled {}  it enters the outbox then, and goes its way from there; a running relay sees to it",
        with_date(scheduled.due_at)
    ))
}

/// Prints an event, and where each route has got with it.
pub fn show(timeline: &Timeline) -> Result<()> {
    let paint = Paint::detect();
    let event = &timeline.entry.event;
    let place = if timeline.is_archived {
        "archived"
    } else {
        "in the outbox"
    };
    show_event(event, paint)?;
    print(format!(
        "recorded  {}  entry {}, {place}",
        with_date(timeline.entry.created_at),
        timeline.entry.id
    ))?;
    if let Some(cause) = event.headers.get(postroom::CAUSATION_ID) {
        print(format!("caused by {}", clean(cause)))?;
    }
    if timeline.deliveries.is_empty() {
        return print("\nno route knows it: a relay registers routes when it starts");
    }
    let is_unwanted = |delivery: &&Delivery| delivery.state == DeliveryState::Unwanted;
    let (unwanted, wanted): (Vec<&Delivery>, Vec<&Delivery>) = timeline.deliveries.iter().partition(is_unwanted);
    show_deliveries(&wanted)?;
    match unwanted.len() as u64 {
        0 => Ok(()),
        routes => {
            let routes = counted(routes, "route does not take", "routes do not take");
            print(format!("\n{routes} {}", clean(&event.event_type)))
        }
    }
}

fn show_deliveries(deliveries: &[&Delivery]) -> Result<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let mut listing = Listing::new(&["route", "state", "#attempts", "next try", "handled at", "last error"]);
    for delivery in deliveries {
        listing.row([
            delivery.route.as_str().into(),
            state(delivery.state),
            delivery
                .attempts
                .map(|attempts| attempts.to_string())
                .unwrap_or_default()
                .into(),
            delivery.retry_at.map(with_date).unwrap_or_default().into(),
            delivery.handled_at.map(with_date).unwrap_or_default().into(),
            delivery.error.as_deref().unwrap_or_default().into(),
        ]);
    }
    print(format!("\n{}", listing.text()))
}

fn state(state: DeliveryState) -> Cell {
    let tone = match state {
        DeliveryState::Passed | DeliveryState::Retried => Tone::Good,
        DeliveryState::Dead | DeliveryState::Held => Tone::Bad,
        DeliveryState::Parked | DeliveryState::Waiting => Tone::Warn,
        DeliveryState::Pending | DeliveryState::Discarded | DeliveryState::Unwanted => Tone::Plain,
    };
    Cell::new(tone, state)
}
