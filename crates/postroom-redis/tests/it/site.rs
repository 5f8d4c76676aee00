//! Brokers for tests, on the shared server or on a private one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Broker;
use postroom_redis::{Options, Redis};
use postroom_testkit::broker_suite::{self, Published};
use postroom_testkit::feed::Feed;
use postroom_testkit::redis_server::{RedisServer, redis};
use postroom_testkit::{Fresh, fresh};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamRangeReply;

/// A broker and, if private, its server.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) broker: Redis,
    pub(crate) server: Option<RedisServer>,
}

pub(crate) async fn shared() -> Site {
    let url = std::env::var("POSTROOM_TEST_REDIS_URL").unwrap_or_else(|_| {
        panic!(
            "POSTROOM_TEST_REDIS_URL is not set: this test needs Redis. Start the services with \
             `eval \"$(cargo xtask services up)\"`, or run everything with `cargo xtask test`"
        )
    });
    // Async, because the suites await both kinds of site.
    std::future::ready(Site::at(url, None, options())).await
}

pub(crate) async fn private() -> Site {
    own(&[], options()).await
}

/// A broker on a private server with these settings.
pub(crate) async fn own(settings: &[&str], options: Options) -> Site {
    let server = redis(settings).await;
    Site::at(server.url(), Some(server), options)
}

pub(crate) async fn published_shared() -> Published<Site> {
    Published::on(shared().await).await
}

pub(crate) async fn published_private() -> Published<Site> {
    Published::on(private().await).await
}

pub(crate) async fn fed() -> Fresh {
    let feed = Feed::on(&mut shared().await).await;
    fresh::sqlite().await.fed_by(feed)
}

/// Default options with a shorter timeout.
pub(crate) fn options() -> Options {
    Options {
        lease: Duration::from_secs(5),
        ..Options::default()
    }
}

impl Site {
    fn at(url: String, server: Option<RedisServer>, options: Options) -> Self {
        let broker = Redis::open(&url, options).unwrap();
        Self { url, broker, server }
    }

    /// A plain client.
    pub(crate) async fn client(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        client
            .get_multiplexed_async_connection_with_config(&patient)
            .await
            .unwrap()
    }
}

#[async_trait]
impl broker_suite::Site for Site {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn create(&mut self, topic: &str, partitions: u16) {
        assert_eq!(self.broker.create(topic, partitions).await.unwrap(), partitions);
    }

    /// Puts another type of value at the keys of the streams.
    async fn create_refusing(&mut self, topic: &str) {
        self.create(topic, 1).await;
        let mut client = self.client().await;
        client.set(format!("postroom:{{{topic}}}:0"), "taken").await.unwrap();
    }

    async fn put(&mut self, topic: &str, content_type: &str, body: &[u8]) {
        let mut client = self.client().await;
        let fields: [(&str, &[u8]); 2] = [("content-type", content_type.as_bytes()), ("data", body)];
        let stream = format!("postroom:{{{topic}}}:0");
        client.xadd(stream, "*", &fields).await.unwrap();
    }

    async fn dead_letters(&mut self, topic: &str) -> Vec<String> {
        let mut client = self.client().await;
        let letters: StreamRangeReply = client.xrange_all(format!("postroom:{{{topic}}}:dead")).await.unwrap();
        let shown = |fields: std::collections::HashMap<String, redis::Value>| {
            let text = |(name, value): (String, redis::Value)| {
                let value: String = redis::from_redis_value(value).unwrap();
                format!("{name}: {value}")
            };
            fields.into_iter().map(text).collect::<Vec<_>>().join("\n")
        };
        letters.ids.into_iter().map(|letter| shown(letter.map)).collect()
    }

    async fn stop(&mut self) {
        self.server.as_mut().unwrap().stop().await.unwrap();
    }

    async fn start(&mut self) {
        self.server.as_mut().unwrap().restart().await.unwrap();
    }
}
