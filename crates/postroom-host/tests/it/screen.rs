//! A module's screen: what it removes from posted events is recorded nowhere.

use std::sync::{Arc, Mutex};

use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom::{
    BoxError, CancellationToken, DomainEvent, Error, Event, Handler, Result, Screen, Subscriber, Tx, parse_payload,
};
use postroom_host::{Doors, Module, Platform};
use postroom_testkit::client::Answer;
use postroom_testkit::wait::until;
use postroom_testkit::{Client, fresh};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Serialize, JsonSchema)]
struct Recorded {}

impl DomainEvent for Recorded {
    const TYPE: &'static str = "tasteam.activity.recorded.v1";
    const AGGREGATE_TYPE: &'static str = "member";

    fn aggregate_id(&self) -> String {
        String::new()
    }
}

/// Removes the text of a review, and refuses events that contain a mail address.
struct Firewall;

impl Screen for Firewall {
    fn event(&self, event: &mut Event) -> Result<()> {
        let mut payload: Value = event.decode()?;
        if payload.get("mail").is_some() {
            return Err(Error::invalid("the field mail is not allowed; remove it"));
        }
        payload.as_object_mut().and_then(|fields| fields.remove("text"));
        event.payload = parse_payload(&payload.to_string())?;
        Ok(())
    }

    fn raw(&self, _name: &str, _value: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Value>>>);

impl Handler for Seen {
    async fn handle(&self, _tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(event.decode()?);
        Ok(())
    }
}

fn activity(id: &str, event_type: &str, data: Value) -> Value {
    json!({ "specversion": "1.0", "id": id, "source": "/app", "type": event_type, "subject": "42", "data": data })
}

#[tokio::test]
async fn a_posted_event_is_cleaned_before_it_is_recorded_and_stays_the_same_event() {
    let (fresh, seen) = (fresh::sqlite().await, Seen::default());
    let scope = Scope {
        modules: ["activity".to_owned()].into(),
        emit: ["**".to_owned()].into(),
    };
    let new = NewToken {
        name: "app".to_owned(),
        role: Role::Service,
        scope,
        expires_at: None,
    };
    let token = token::create(fresh.db(), &new, "test").await.unwrap().to_string();
    let module = Module::new("activity")
        .event::<Recorded>()
        .subscriber(Subscriber::matching("activity-store", ["**"], seen.clone()))
        .screen(Arc::new(Firewall));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client(format!("http://{}", listener.local_addr().unwrap()));
    let platform = Platform::new(fresh.store()).module(module).serve(listener);
    let stop = CancellationToken::new();
    let running = platform.doors(Doors::locked()).run(stop.clone());
    let post = async |events: &[Value]| -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/cloudevents-batch+json"),
        ];
        let body = json!(events).to_string();
        client.must("POST", "/api/v1/events", &headers, &body).await
    };
    let secret = json!({ "reviewId": 1, "text": "SECRET" });
    let watch = async {
        let first = post(&[activity("1", Recorded::TYPE, secret.clone())]).await.ok();
        assert_eq!((&first["accepted"], &first["repeated"]), (&json!(1), &json!(0)));
        let again = post(&[activity("1", Recorded::TYPE, secret.clone())]).await.ok();
        assert_eq!((&again["accepted"], &again["repeated"]), (&json!(0), &json!(1)));
        assert_eq!(first["event_ids"], again["event_ids"]);
        let other = activity("1", Recorded::TYPE, json!({ "reviewId": 2, "text": "SECRET" }));
        assert_eq!(post(&[other]).await.code(), "conflict");
        let mail = activity("2", Recorded::TYPE, json!({ "mail": "ada@example.com" }));
        let refused = post(&[activity("3", Recorded::TYPE, secret.clone()), mail]).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid"));
        let says = refused.body["detail"].as_str().unwrap().to_owned();
        assert!(
            says.starts_with("event 1 of type tasteam.activity.recorded.v1 is refused: the field mail"),
            "{says}"
        );
        let older = "tasteam.activity.recorded.v0";
        post(&[activity("4", older, secret.clone())]).await.ok();
        post(&[activity("5", "other.thing.v1", json!({ "text": "not of this module" }))])
            .await
            .ok();
        until("all are handled", || async { seen.0.lock().unwrap().len() == 3 }).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(running, watch);
    ended.unwrap();
    let expected = [
        json!({ "reviewId": 1 }),
        json!({ "reviewId": 1 }),
        json!({ "text": "not of this module" }),
    ];
    assert_eq!(*seen.0.lock().unwrap(), expected);
}
