//! `postroom why`: what holds things up, or where one event has got to.

use anyhow::Result;
use clap::Args;
use postroom::operate::{self, Carrier, Reason, Scheduled, Step, Timeline, counted};
use postroom::{Event, Inspect};
use uuid::Uuid;

use crate::age::with_date;
use crate::config::Config;
use crate::listing::{Cell, Listing};
use crate::module::BUILT_IN;
use crate::output::{self, Paint, Tone, clean, print, print_json};

/// The state of an event on a route that does not take its type.
const UNWANTED: &str = "unwanted";

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

impl Why {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready_to_read().await?;
        match self.event_id {
            Some(event_id) => self.explain(store.as_ref(), event_id, config).await,
            None => {
                let reasons = operate::why(store.as_ref()).await?;
                if self.json {
                    print_json(&reasons)
                } else {
                    show_reasons(&reasons)
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
        mark_unwanted(&mut timeline, &carriers(config));
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

/// What is known of routes: those of this configuration, and the subscribers of every module.
fn carriers(config: &Config) -> Vec<Carrier> {
    let configured = config.routes.iter().map(|route| Carrier {
        route: route.name.clone(),
        filter: route.filter(),
    });
    let modules = BUILT_IN.iter().flat_map(|(_, module)| module().subscribers);
    let subscribers = modules.map(|subscriber| Carrier {
        route: subscriber.group.clone(),
        filter: subscriber.filter.clone(),
    });
    configured.chain(subscribers).collect()
}

/// A store knows how far a route has come, and not what it takes: what is passed by is not delivered.
fn mark_unwanted(timeline: &mut Timeline, carriers: &[Carrier]) {
    let event_type = &timeline.entry.event.event_type;
    for step in &mut timeline.steps {
        let carrier = carriers.iter().find(|carrier| carrier.route == step.route);
        let is_wanted = carrier.is_none_or(|carrier| carrier.filter.matches(event_type));
        let has_trace = step.handled_at.is_some() || !["passed", "pending"].contains(&step.state.as_str());
        if !is_wanted && !has_trace {
            UNWANTED.clone_into(&mut step.state);
        }
    }
}

fn show_reasons(reasons: &[Reason]) -> Result<()> {
    let paint = Paint::detect();
    if reasons.is_empty() {
        return print("nothing holds anything up");
    }
    for reason in reasons {
        let title = format!("{} {}", reason.what, clean(&reason.who));
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
    if timeline.steps.is_empty() {
        return print("\nno route knows it: a relay registers routes when it starts");
    }
    let (unwanted, wanted): (Vec<&Step>, Vec<&Step>) = timeline.steps.iter().partition(|step| step.state == UNWANTED);
    show_steps(&wanted, paint)?;
    match unwanted.len() as u64 {
        0 => Ok(()),
        routes => {
            let routes = counted(routes, "route does not take", "routes do not take");
            print(format!("\n{routes} {}", clean(&event.event_type)))
        }
    }
}

fn show_steps(steps: &[&Step], paint: Paint) -> Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    let mut listing = Listing::new(&["route", "state", "#attempts", "handled at", "last error"]);
    for step in steps {
        listing.row([
            step.route.as_str().into(),
            state(&step.state),
            step.attempts
                .map(|attempts| attempts.to_string())
                .unwrap_or_default()
                .into(),
            step.handled_at.map(with_date).unwrap_or_default().into(),
            step.error.as_deref().unwrap_or_default().into(),
        ]);
    }
    print(format!(
        "\n{}",
        listing.text(output::size().map(|(columns, _)| columns), paint)
    ))
}

fn state(name: &str) -> Cell {
    let tone = match name {
        "passed" | "retried" => Tone::Good,
        "dead" | "held" => Tone::Bad,
        "parked" | "waiting" => Tone::Warn,
        _ => Tone::Plain,
    };
    Cell::new(tone, name)
}
