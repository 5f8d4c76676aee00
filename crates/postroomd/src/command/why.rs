//! `postroom why`: what holds things up, or where one event has got to.

use anyhow::Result;
use clap::Args;
use postroom::operate::{self, Carrier, Delivery, DeliveryState, Reason, ReasonKind, Scheduled, Timeline, counted};
use postroom::{Event, Inspect};
use postroom_host::Module;
use serde::Serialize;
use uuid::Uuid;

use crate::age::with_date;
use crate::config::Config;
use crate::listing::{Cell, Listing};
use crate::module;
use crate::output::{Paint, Tone, clean, print, print_json};
use crate::text;

/// Tell what holds things up and the next safe step, or the way of one event
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The event whose way to show: its id, as `emit` and `tail` print it
    #[arg(value_parser = parse_id)]
    event_id: Option<Uuid>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A reason in words.
#[derive(Debug, Serialize)]
struct Told {
    what: ReasonKind,
    who: String,
    says: String,
    next: String,
}

impl From<&Reason> for Told {
    fn from(reason: &Reason) -> Self {
        Self {
            what: reason.kind(),
            who: text::place(reason).to_owned(),
            says: text::reason(reason),
            next: text::next(&reason.next_steps()),
        }
    }
}

impl Why {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready_to_read().await?;
        match self.event_id {
            Some(event_id) => self.explain(store.as_ref(), event_id, config).await,
            None => {
                let reasons = operate::why(store.as_ref()).await?;
                let told: Vec<Told> = reasons.iter().map(Told::from).collect();
                if self.json {
                    print_json(&told)
                } else {
                    show_reasons(&told)
                }
            }
        }
    }

    async fn explain(&self, store: &dyn Inspect, event_id: Uuid, config: &Config) -> Result<()> {
        if let Some(scheduled) = operate::scheduled(store, event_id).await? {
            return match self.json {
                true => print_json(&scheduled),
                false => show_scheduled(&scheduled),
            };
        }
        let mut timeline = operate::timeline(store, event_id).await?;
        timeline.mark_unwanted(&carriers(config));
        match self.json {
            true => print_json(&timeline),
            false => show_timeline(&timeline),
        }
    }
}

fn parse_id(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_no_uuid| {
        "this is no event id, which looks like 01990000-0000-7000-8000-000000000000: `postroom tail` shows them. For a dead \
         letter there is `postroom dead show NUMBER`, for a route `postroom status --route NAME`"
            .to_owned()
    })
}

/// The known routes: those of this configuration, and the subscribers and routes of every module.
fn carriers(config: &Config) -> Vec<Carrier> {
    let configured = config.routes.iter().map(|route| Carrier {
        route: route.name.clone(),
        filter: route.filter(),
    });
    let of_module = |module: Module| {
        let subscribers = module.subscribers.into_iter().map(|one| (one.group, one.filter));
        let routes = module.routes.into_iter().map(|route| (route.name, route.filter));
        subscribers.chain(routes).collect::<Vec<_>>()
    };
    let of_modules = module::all(config).into_iter().flat_map(of_module);
    let of_modules = of_modules.map(|(route, filter)| Carrier { route, filter });
    configured.chain(of_modules).collect()
}

fn show_reasons(reasons: &[Told]) -> Result<()> {
    let paint = Paint::detect();
    if reasons.is_empty() {
        return print("nothing holds anything up");
    }
    for reason in reasons {
        let title = format!("{} {}", text::kind(reason.what), clean(&reason.who));
        print(format!(
            "{}: {}",
            paint.paint(Tone::Strong, &title),
            clean(&reason.says)
        ))?;
        print(format!(
            "  {} {}",
            paint.paint(Tone::Faint, "next:"),
            clean(&reason.next)
        ))?;
    }
    Ok(())
}

fn show_event(event: &Event, paint: Paint) -> Result<()> {
    print(format!(
        "{}  {}",
        paint.paint(Tone::Strong, &clean(&event.event_type)),
        event.id
    ))?;
    print(format!("key       {}", clean(&event.key().to_string())))?;
    print(format!("occurred  {}", with_date(event.occurred_at)))
}

fn show_scheduled(scheduled: &Scheduled) -> Result<()> {
    show_event(&scheduled.event, Paint::detect())?;
    print(format!(
        "scheduled {}  it enters the outbox then, and goes its way from there; a running relay sees to it",
        with_date(scheduled.due_at)
    ))
}

fn show_timeline(timeline: &Timeline) -> Result<()> {
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
    let mut listing = Listing::new(&["route", "state", "#attempts", "handled at", "last error"]);
    for delivery in deliveries {
        listing.row([
            delivery.route.as_str().into(),
            state(delivery.state),
            delivery
                .attempts
                .map(|attempts| attempts.to_string())
                .unwrap_or_default()
                .into(),
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
