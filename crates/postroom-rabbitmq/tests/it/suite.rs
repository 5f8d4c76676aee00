//! The suites of brokers and destinations.

use postroom_testkit::broker_suite::Published;
use postroom_testkit::feed::Feed;
use postroom_testkit::{Fresh, fresh};

use crate::site::{self, Rabbit};

mod broker {
    postroom_testkit::broker_suite!(crate::site::shared, crate::site::private);
}

mod destination {
    postroom_testkit::destination_suite!(super::published_shared, super::published_private);
}

/// The subscriber suites with RabbitMQ as the source of events.
mod fed {
    postroom_testkit::feed_suite!(crate::suite::fed);
    postroom_testkit::move_suite!(crate::suite::fed);
    postroom_testkit::copies_suite!(crate::suite::fed);
}

async fn published_shared() -> Published<Rabbit> {
    Published::on(site::shared().await).await
}

async fn published_private() -> Published<Rabbit> {
    Published::on(site::private().await).await
}

pub(crate) async fn fed() -> Fresh {
    let feed = Feed::on(&mut site::shared_with(1)).await;
    fresh::sqlite().await.fed_by(feed)
}
