//! Real-time delivery of member streams: one hub of connections for each process, the destination that publishes frames after
//! their transactions, and the HTTP API. All of it is best effort: what it loses is read from the tables.

mod http;
mod publish;

use std::sync::Arc;
use std::time::Duration;

use postroom::{DomainEvent as _, Filter, Ordering, Route, Start, To};
use postroom_host::Module;
use postroom_realtime::{Hub, HubSettings};
use postroom_shared::registry::Limits;

use crate::events::StreamAppended;
use crate::settings::Settings;
use crate::stream::MemberJournal;
use publish::Publisher;

/// The hub, its metrics and its channel.
const NAME: &str = "notification";
/// The key of a member's connections is `sse:notification:{42}`.
const KIND: &str = "sse:notification";
/// Where the end of a connection is announced.
const DISCONNECT: &str = "sse:notification:disconnect";
/// The route that publishes frames.
const ROUTE: &str = "community-realtime";

/// The hub of notifications, and what it reads.
#[derive(Clone, Debug)]
struct Realtime {
    hub: Hub,
    journal: MemberJournal,
}

/// Adds real-time delivery to the module.
pub(crate) fn join(module: Module, settings: &Settings) -> Module {
    let journal = MemberJournal::new(settings.frames_kept());
    let hub = Hub::new(hub_settings(settings), Arc::new(journal.clone()), module.shared());
    let realtime = Realtime {
        hub: hub.clone(),
        journal: journal.clone(),
    };
    let part = {
        let hub = hub.clone();
        move |host: postroom_host::Host, stop| {
            journal.read_from(&host.store);
            hub.run(stop)
        }
    };
    module
        .route(route(hub.clone()))
        .part("notification-hub", part)
        .metrics(move |registry| hub.metrics(registry))
        .http(http::streams(realtime.clone()))
        .http(http::own(realtime))
}

fn hub_settings(settings: &Settings) -> HubSettings {
    let stream = &settings.stream;
    let ping_every = Duration::from_secs(stream.ping_seconds.get().into());
    let limits = Limits {
        kind: KIND.to_owned(),
        evictions: DISCONNECT.to_owned(),
        limit: stream.connections_per_member.get(),
        lease: ping_every * 3, // it is renewed with each ping
    };
    HubSettings {
        lifetime: Duration::from_secs(stream.lifetime_seconds.get().into()),
        ping_every,
        ..HubSettings::new(NAME)
    }
    .limits(limits)
}

/// Frames have no order on their way: receivers put them in the order of their numbers.
fn route(hub: Hub) -> Route {
    Route {
        filter: Filter::any_of([StreamAppended::TYPE]),
        ordering: Ordering::None,
        start: Start::Head,
        ..Route::new(ROUTE, To::Destination(Arc::new(Publisher::new(hub))))
    }
}
