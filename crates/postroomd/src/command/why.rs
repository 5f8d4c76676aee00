//! `postroom why`: what holds things up, or where one event has got to.

use anyhow::Result;
use clap::Args;
use postroom::Inspect;
use postroom::operate::{self, Carrier};
use postroom_host::Module;
use postroom_terminal::output::print_json;
use postroom_terminal::page::reason::{self, Told};
use postroom_terminal::page::timeline;
use uuid::Uuid;

use super::event_id;
use crate::config::Config;
use crate::module;

/// Tell what holds things up and the next safe step, or the way of one event
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The event whose way to show: its id, as `emit` and `tail` print it
    #[arg(value_parser = event_id::parse)]
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
                let reasons = operate::why_among(store.as_ref(), &carriers(config)).await?;
                let told: Vec<Told> = reasons.iter().map(Told::from).collect();
                if self.json {
                    print_json(&told)
                } else {
                    reason::show(&told)
                }
            }
        }
    }

    async fn explain(&self, store: &dyn Inspect, event_id: Uuid, config: &Config) -> Result<()> {
        if let Some(scheduled) = operate::scheduled(store, event_id).await? {
            return match self.json {
                true => print_json(&scheduled),
                false => timeline::show_scheduled(&scheduled),
            };
        }
        let mut way = operate::timeline(store, event_id).await?;
        way.mark_unwanted(&carriers(config));
        match self.json {
            true => print_json(&way),
            false => timeline::show(&way),
        }
    }
}

/// The known routes: those of this configuration, and the subscribers and routes of every module.
fn carriers(config: &Config) -> Vec<Carrier> {
    let configured = config.routes.iter().map(|route| Carrier {
        ordering: route.ordering,
        ..Carrier::new(&route.name, route.filter())
    });
    let modules = module::all(config).into_iter();
    configured.chain(modules.flat_map(Module::into_carriers)).collect()
}
