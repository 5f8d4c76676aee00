//! Pub/Sub beyond the suite: connections that are closed, silent or idle.

use std::time::Duration;

use postroom::ErrorKind;
use postroom_redis::{Options, Redis};
use postroom_shared::{FanOut, Listener, Message};
use postroom_testkit::cable::Cable;
use postroom_testkit::certificate::Certificates;
use tokio::time::{Instant, sleep, timeout};

use crate::events::PATIENCE;
use crate::site::{Site, options, private};
use crate::tls::encrypted;

/// The contract allows this time until a silent connection is noticed.
const SILENCE_MAX: Duration = Duration::from_secs(15);

async fn say(fan_out: &dyn FanOut, text: &str) {
    fan_out.publish(&[Message::new("news", text)]).await.unwrap();
}

async fn hear(listener: &mut Box<dyn Listener>) -> String {
    let message = timeout(PATIENCE, listener.next()).await.unwrap().unwrap();
    String::from_utf8(message.body).unwrap()
}

async fn failure(listener: &mut Box<dyn Listener>) -> String {
    let error = timeout(PATIENCE, listener.next()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error.report()
}

/// An address of the same server behind a cable.
fn behind(cable: &Cable) -> String {
    format!("redis://{}/", cable.address)
}

async fn cable(site: &Site) -> Cable {
    let server = site.url.trim_start_matches("redis://").trim_end_matches('/');
    Cable::to(server).await
}

#[tokio::test]
async fn a_listener_whose_connection_the_server_closes_fails_and_another_one_hears() {
    let site = private().await;
    let fan_out = site.broker.shared_state().fan_out;
    let mut listener = fan_out.listen(&["news"]).await.unwrap();
    say(&*fan_out, "1").await;
    assert_eq!(hear(&mut listener).await, "1");
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    let killed: u32 = kill.query_async(&mut site.client().await).await.unwrap();
    assert_eq!(killed, 1);
    assert!(failure(&mut listener).await.contains("closed"));
    assert!(failure(&mut listener).await.contains("closed"), "it stays so");
    let mut again = fan_out.listen(&["news"]).await.unwrap();
    say(&*fan_out, "2").await;
    assert_eq!(hear(&mut again).await, "2");
}

#[tokio::test]
async fn a_listener_of_a_server_that_dies_fails_and_hears_again_when_it_is_back() {
    let mut site = private().await;
    let fan_out = site.broker.shared_state().fan_out;
    let mut listener = fan_out.listen(&["news"]).await.unwrap();
    site.server.as_mut().unwrap().kill().unwrap();
    failure(&mut listener).await;
    assert!(fan_out.listen(&["news"]).await.is_err());
    site.server.as_mut().unwrap().restart().await.unwrap();
    let mut again = fan_out.listen(&["news"]).await.unwrap();
    say(&*fan_out, "back").await;
    assert_eq!(hear(&mut again).await, "back");
}

/// Contract 3, also for a caller that drops its calls again and again.
#[tokio::test]
async fn a_connection_that_became_silent_is_noticed_in_time() {
    let site = private().await;
    let cable = cable(&site).await;
    let fan_out = Redis::open(&behind(&cable), options()).unwrap().shared_state().fan_out;
    let mut waiting = fan_out.listen(&["news"]).await.unwrap();
    let mut looking = fan_out.listen(&["news"]).await.unwrap();
    say(&*fan_out, "1").await;
    for listener in [&mut waiting, &mut looking] {
        assert_eq!(hear(listener).await, "1");
    }
    cable.cut();
    let began = Instant::now();
    let looks = async {
        loop {
            if let Ok(outcome) = timeout(Duration::from_millis(70), looking.next()).await {
                return outcome.unwrap_err();
            }
        }
    };
    let both = async { tokio::join!(waiting.next(), looks) };
    let (waited, looked) = timeout(PATIENCE, both).await.unwrap();
    let took = began.elapsed();
    println!("silence was noticed after {took:?}");
    assert!(took < SILENCE_MAX, "{took:?}");
    for error in [waited.unwrap_err(), looked] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(
        waiting.next().await.is_err() && looking.next().await.is_err(),
        "they stay so"
    );
}

#[tokio::test]
async fn an_idle_listener_stays_connected() {
    let site = private().await;
    let fan_out = site.broker.shared_state().fan_out;
    let mut listener = fan_out.listen(&["news"]).await.unwrap();
    let idle = timeout(Duration::from_secs(12), listener.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    say(&*fan_out, "1").await;
    assert_eq!(hear(&mut listener).await, "1");
}

/// The listener does not check its connection while no call waits. It keeps the messages that come meanwhile.
#[tokio::test]
async fn a_listener_that_is_not_asked_for_a_while_has_its_messages() {
    let site = private().await;
    let fan_out = site.broker.shared_state().fan_out;
    let mut listener = fan_out.listen(&["news"]).await.unwrap();
    let looked = timeout(Duration::from_millis(5100), listener.next()).await; // now it asks whether the connection is alive
    assert!(looked.is_err());
    sleep(Duration::from_secs(6)).await;
    say(&*fan_out, "1").await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(hear(&mut listener).await, "1");
    say(&*fan_out, "2").await;
    assert_eq!(hear(&mut listener).await, "2");
}

#[tokio::test]
async fn a_listener_that_is_dropped_closes_its_connection() {
    let site = private().await;
    let fan_out = site.broker.shared_state().fan_out;
    drop(fan_out.listen(&["news"]).await.unwrap());
    let is_gone = async || {
        let mut list = redis::cmd("PUBSUB");
        let heard: (String, u32) = list
            .arg("NUMSUB")
            .arg("news")
            .query_async(&mut site.client().await)
            .await
            .unwrap();
        heard.1 == 0
    };
    postroom_testkit::wait::until("nobody listens", is_gone).await;
}

#[tokio::test]
async fn messages_come_over_tls() {
    let certificates = Certificates::of("root");
    let (_server, url) = encrypted(&certificates, true).await;
    let options = Options {
        tls: certificates.mutual(),
        ..Options::default()
    };
    let fan_out = Redis::open(&url, options).unwrap().shared_state().fan_out;
    let mut listener = fan_out.listen(&["news"]).await.unwrap();
    say(&*fan_out, "1").await;
    assert_eq!(hear(&mut listener).await, "1");
}
