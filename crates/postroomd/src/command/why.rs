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

use crate::config::Config;
use crate::module;

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
