//! `[[routes]]`: which events go where.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result as Outcome;
use postroom::{
    BATCH, BATCH_MAX, Broker, Dead, Delays, Filter, LogDestination, Mode, NullDestination, Ordering, PROBE_EVERY,
    Probe, Retry, Start, To, Topic,
};
use postroom_address::BrokerKind;
use postroom_http::{Secret, Webhook};
use toml::{Table, Value};

use super::section::Section;
use super::value;
use crate::broker::Brokers;

/// A route as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) patterns: Vec<String>,
    pub(crate) to: Destination,
    pub(crate) topic: Topic,
    pub(crate) mode: Mode,
    pub(crate) ordering: Ordering,
    pub(crate) retry: Retry,
    pub(crate) probe: Probe,
    pub(crate) dead: Dead,
    pub(crate) start: Start,
    pub(crate) record: bool,
    pub(crate) batch: usize,
    pub(crate) shards: u32,
}

/// Where a configured route leads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Destination {
    Null,
    Log,
    Broker(BrokerKind),
    Http(Hook),
}

/// Where and how a route posts.
#[derive(Clone, PartialEq)]
pub(crate) struct Hook {
    pub(crate) url: String,
    /// Standard Webhooks secrets; none, and requests are not signed.
    pub(crate) secrets: Vec<String>,
    pub(crate) timeout: Duration,
}

impl Default for Hook {
    fn default() -> Self {
        Self {
            url: String::new(),
            secrets: Vec::new(),
            timeout: Duration::from_secs(15),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({}, {} secrets)", self.url, self.secrets.len())
    }
}

impl Hook {
    fn open(&self, mode: Mode) -> postroom::Result<Webhook> {
        let secrets = self.secrets.iter().map(|secret| secret.parse::<Secret>());
        Webhook::new(&self.url, mode, secrets.collect::<Result<_, _>>()?, self.timeout)
    }
}

impl Route {
    /// A route with the defaults.
    pub(crate) fn new(name: &str, to: Destination) -> Self {
        let batch = match to {
            Destination::Broker(_) => BATCH_MAX,
            Destination::Http(_) | Destination::Log | Destination::Null => BATCH,
        };
        Self {
            name: name.to_owned(),
            patterns: vec!["**".to_owned()],
            to,
            topic: Topic::default(),
            mode: Mode::default(),
            ordering: Ordering::default(),
            retry: Retry::default(),
            probe: Probe::default(),
            dead: Dead::default(),
            start: Start::default(),
            record: false,
            batch,
            shards: 1,
        }
    }

    /// Which events it takes.
    pub(crate) fn filter(&self) -> Filter {
        Filter::any_of(self.patterns.clone())
    }

    /// The route as a relay takes it. `queue` is the broker of its topic, if a module says how its topic is used.
    pub(crate) fn build(&self, brokers: &Brokers, queue: Option<&Arc<dyn Broker>>) -> Outcome<postroom::Route> {
        let destination: Arc<dyn postroom::Destination> = match &self.to {
            Destination::Null => Arc::new(NullDestination),
            Destination::Log => Arc::new(LogDestination::new(&self.name)),
            Destination::Broker(kind) => match queue {
                Some(queue) => queue.publisher(self.topic.clone(), self.mode.clone()),
                None => brokers.publisher(*kind, &self.name, self.topic.clone(), self.mode.clone())?,
            },
            Destination::Http(hook) => Arc::new(hook.open(self.mode.clone())?),
        };
        Ok(postroom::Route {
            filter: self.filter(),
            ordering: self.ordering,
            retry: self.retry.clone(),
            probe: self.probe,
            dead: self.dead,
            start: self.start,
            records: self.record,
            batch: self.batch,
            shards: self.shards,
            ..postroom::Route::new(&self.name, To::Destination(destination))
        })
    }
}

/// Every route; a name that comes twice is a mistake.
pub(super) fn read_all(root: &mut Section<'_>) -> Vec<Route> {
    let tables: Vec<Table> = match root.take_value("routes") {
        None => Vec::new(),
        Some(Value::Array(list)) if list.iter().all(Value::is_table) => {
            list.into_iter().filter_map(|route| route.try_into().ok()).collect()
        }
        Some(_) => {
            root.wrong(
                "routes",
                "must be a list of tables; begin each route with a line [[routes]]",
            );
            Vec::new()
        }
    };
    let mut names = HashSet::new();
    let mut routes = Vec::with_capacity(tables.len());
    for (at, table) in tables.into_iter().enumerate() {
        let route = root.nested(&format!("routes[{at}]"), table, read_one);
        if !route.name.is_empty() && !names.insert(route.name.clone()) {
            let says = format!(
                "{:?} is the name of another route; progress is kept by name, so give each its own",
                route.name
            );
            root.wrong(&format!("routes[{at}].name"), &says);
        }
        routes.push(route);
    }
    routes
}

fn read_one(section: &mut Section<'_>) -> Route {
    let name = section.require("name", name).unwrap_or_default();
    let patterns = section.take("match", patterns);
    let to = section.require("to", destination).unwrap_or(Destination::Null);
    let to = match to {
        Destination::Http(_) => Destination::Http(read_hook(section)),
        other => other,
    };
    let default = Route::new(&name, to);
    Route {
        to: default.to,
        patterns: patterns.unwrap_or(default.patterns),
        topic: section.take("topic", value::topic).unwrap_or_default(),
        mode: section
            .take(
                "mode",
                value::one_of(&[("binary", Mode::Binary), ("structured", Mode::Structured)]),
            )
            .unwrap_or_default(),
        ordering: section
            .take(
                "ordering",
                value::one_of(&[
                    ("strict", Ordering::Strict),
                    ("key", Ordering::Key),
                    ("none", Ordering::None),
                ]),
            )
            .unwrap_or_default(),
        retry: section.section("retry", read_retry),
        probe: section.take("probe", probe).unwrap_or_default(),
        dead: section
            .take("dead", value::one_of(&[("skip", Dead::Skip), ("hold", Dead::Hold)]))
            .unwrap_or_default(),
        start: section.take("start", value::start).unwrap_or_default(),
        record: section.take_or("record", value::flag, default.record),
        batch: section.take_or("batch", batch, default.batch),
        shards: section.take_or("shards", value::number(1..=1024), 1),
        name,
    }
}

fn read_hook(section: &mut Section<'_>) -> Hook {
    let default = Hook::default();
    let hook = Hook {
        url: section.require("url", value::http_url).unwrap_or_default(),
        secrets: section.take("secrets", secrets).unwrap_or_default(),
        timeout: section.take_or("timeout", value::duration, default.timeout),
    };
    if section.is_clean()
        && let Err(error) = hook.open(Mode::default())
    {
        section.wrong("url", &error.report());
    }
    hook
}

/// Secrets are not repeated.
fn secrets(value: &Value) -> Result<Vec<String>, String> {
    let list: Vec<Value> = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let secret = |value: &Value| {
        let text = value.as_str().ok_or("must be a list of texts")?;
        let secret = text.parse::<Secret>().map_err(|error| error.report())?;
        drop(secret);
        Ok(text.to_owned())
    };
    list.iter().map(secret).collect()
}

fn read_retry(section: &mut Section<'_>) -> Retry {
    let default = Retry::default();
    let exponential = section.take_value("exponential");
    let exponential = exponential.and_then(|exponential| read_exponential(section, exponential));
    let fixed = section.take("fixed", value::duration).map(Delays::Fixed);
    let steps = section.take("delays", value::durations).map(Delays::Steps);
    let mut given = [exponential, fixed, steps].into_iter().flatten();
    let delays = given.next().unwrap_or(default.delays);
    if given.next().is_some() {
        section.wrong("delays", "give one of delays, fixed and exponential");
    }
    Retry {
        delays,
        attempts_max: section.take_or("attempts_max", value::limit, default.attempts_max),
        age_max: section.take("age_max", value::duration),
    }
}

fn read_exponential(section: &mut Section<'_>, value: Value) -> Option<Delays> {
    let Value::Table(table) = value else {
        section.wrong(
            "exponential",
            &format!(r#"must be {{ first = "1s", max = "5m" }}, not {value}"#),
        );
        return None;
    };
    section.nested("exponential", table, |section| {
        let first = section.require("first", value::duration)?;
        let max = section.require("max", value::duration)?;
        if max < first {
            section.wrong("max", "must be at least as long as first");
        }
        Some(Delays::Exponential { first, max })
    })
}

fn name(value: &Value) -> Result<String, String> {
    let name = value::text(value)?;
    let is_plain = name.len() <= 200 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_plain {
        Ok(name)
    } else {
        Err(format!(
            "must have 1 to 200 letters, digits, '-', '_' and '.', not {value}"
        ))
    }
}

fn patterns(value: &Value) -> Result<Vec<String>, String> {
    let list = match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(list) => list.iter().map(value::text).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    if Filter::any_of(list.clone()).check().is_ok() {
        return Ok(list);
    }
    let wanted = r#"event types such as "shop.order.*" or ["shop.**"]; * is one segment, ** the rest and comes last"#;
    Err(format!("must be {wanted}; not {value}"))
}

fn destination(value: &Value) -> Result<Destination, String> {
    match value.as_str() {
        Some("null") => Ok(Destination::Null),
        Some("log") => Ok(Destination::Log),
        Some(broker) if BrokerKind::named(broker).is_some() => value::broker(value).map(Destination::Broker),
        Some("http") => Ok(Destination::Http(Hook::default())),
        _ => Err(format!(
            "must be \"kafka\", \"rabbitmq\", \"redis\", \"http\", \"log\" or \"null\", not {value}"
        )),
    }
}

/// `"backoff"`, or the interval.
fn probe(value: &Value) -> Result<Probe, String> {
    if value.as_str() == Some("backoff") {
        return Ok(Probe::Backoff);
    }
    match value::duration(value)
        .ok()
        .filter(|interval| PROBE_EVERY.contains(interval))
    {
        Some(interval) => Ok(Probe::every(interval)),
        None => Err(format!(
            r#"must be "backoff" or an interval from "1s" to "24h", not {value}"#
        )),
    }
}

fn batch(value: &Value) -> Result<usize, String> {
    let max = u32::try_from(BATCH_MAX).unwrap_or(u32::MAX);
    value::number(1..=max)(value).map(|number| number as usize)
}
