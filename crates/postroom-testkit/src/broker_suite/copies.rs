//! Clauses about the copies of dead letters.

use std::time::Duration;

use postroom::{ErrorKind, Letter, Message, Origin};
use tokio::time::timeout;
use uuid::Uuid;

use super::{PATIENCE, Site, entry, topic_of};

/// The copy of a dead letter.
pub(super) fn letter(group: &str, topic: &str, number: i64) -> Letter {
    let envelope = postroom::Envelope::of(&entry(number, "a"));
    Letter {
        group: group.to_owned(),
        event_id: Uuid::now_v7(),
        origin: Origin {
            topic: topic.to_owned(),
            place: "the place".to_owned(),
        },
        content_type: Some("application/json".to_owned()),
        attributes: envelope.attributes,
        fields: postroom::Fields::from_iter([("tenant", "acme")]),
        body: format!("{{\"n\":{number}}}").into_bytes(),
        error: "no such product\nbecause é".to_owned(),
        attempts: 3,
    }
}

/// A letter that is buried can be found with the broker's own tools.
pub async fn a_dead_letter_says_where_from_and_why(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let letter = letter("the-group", &topic, 1);
    site.broker().bury(&letter).await.expect("buried");
    let buried = timeout(PATIENCE, site.dead_letters(&topic)).await.expect("in time");
    assert_eq!(buried.len(), 1, "{buried:?}");
    for words in [
        &topic,
        "the place",
        "the-group",
        "no such product",
        r#"{"n":1}"#,
        "suite.noted.v1",
        "acme",
        &letter.event_id.to_string(),
    ] {
        assert!(buried[0].contains(words), "{words:?} is missing: {}", buried[0]);
    }
}

/// Contract 4: the copies of a group are handed out. One that is acknowledged goes; the others stay, whatever their order is then, and
/// so do those of other groups.
pub async fn a_copy_of_a_dead_letter_goes_when_it_is_acknowledged(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let letters: Vec<Letter> = (0..4).map(|number| letter("the-group", &topic, number)).collect();
    for one in &letters {
        site.broker().bury(one).await.expect("buried");
    }
    site.broker().bury(&letter("another", &topic, 9)).await.expect("buried");
    let topics = [topic.clone()];
    if !site.removes_copies() {
        let refused = site.broker().buried("the-group", &topics).await;
        assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Unsupported));
        assert_eq!(site.dead_letters(&topic).await.len(), 5, "they stay");
        return;
    }
    let all = copies(&site, "the-group", &topics).await;
    let expected: Vec<String> = letters.iter().map(|one| one.event_id.to_string()).collect();
    assert_eq!(ids(&all), expected);
    assert_eq!(all[1].body, letters[1].body);
    let again = all_of(&site, "the-group", &topics, 4).await;
    assert_eq!(ids(&again), expected, "looking at all of them changes nothing");
    let mut reading = site.broker().buried("the-group", &topics).await.expect("copies");
    let mut read = Vec::new();
    while read.len() < 3 {
        read.extend(reading.next(3 - read.len()).await.expect("copies"));
    }
    let second = read[1].mark.clone();
    reading.ack(&[second]).await.expect("removed");
    drop(reading);
    let mut rest = expected.clone();
    rest.remove(1);
    let mut found = ids(&all_of(&site, "the-group", &topics, 3).await);
    found.sort(); // by age
    assert_eq!(found, rest);
    assert_eq!(copies(&site, "another", &topics).await.len(), 1);
}

/// So many copies; a broker may take a while to put back those that were only looked at.
async fn all_of(site: &impl Site, group: &str, topics: &[String], count: usize) -> Vec<Message> {
    let looking = async {
        loop {
            let found = copies(site, group, topics).await;
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("they are back in time")
}

async fn copies(site: &impl Site, group: &str, topics: &[String]) -> Vec<Message> {
    let mut reading = site.broker().buried(group, topics).await.expect("copies");
    let mut copies = Vec::new();
    loop {
        let some = timeout(PATIENCE, reading.next(3))
            .await
            .expect("in time")
            .expect("copies");
        if some.is_empty() {
            return copies;
        }
        copies.extend(some);
    }
}

fn ids(copies: &[Message]) -> Vec<String> {
    let id = |copy: &Message| copy.fields.text(Letter::EVENT_ID).unwrap_or_default().to_owned();
    copies.iter().map(id).collect()
}
