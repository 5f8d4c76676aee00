//! From TOML text and environment variables to a configuration, or to everything that is wrong with them.

use postroom_address::BrokerKind;
use postroom_host::{Mistake, Module, Queue, Retention};
use postroom_telemetry::LogFormat;
use toml::{Table, Value};

use super::section::{Mistakes, Section};
use super::{
    Config, LEASE_MIN, Log, ModuleSettings, Modules, Relay, Store, Telemetry, access, alert, broker, queue, route,
    server, value,
};

use crate::module;

const PREFIX: &str = "POSTROOM__";

pub(super) fn read(toml: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<Config, Vec<String>> {
    let mut table: Table = toml
        .parse()
        .map_err(|error: toml::de::Error| vec![error.to_string().trim_end().to_owned()])?;
    let mut mistakes = Mistakes::default();
    overlay(&mut table, environment, &mut mistakes);
    let mut root = Section::new("", table, &mut mistakes);
    let config = read_root(&mut root);
    check_brokers(&mut root, &config);
    queue::check(&mut root, &config.brokers, &config.modules);
    check_names(&mut root, &config);
    root.finish();
    match mistakes.into_vec() {
        none if none.is_empty() => Ok(config),
        found => Err(found),
    }
}

fn read_root(root: &mut Section<'_>) -> Config {
    Config {
        store: root.section("store", |section| Store {
            url: section.take("url", value::store_url).unwrap_or_default(),
        }),
        server: root.section("server", server::read),
        access: root.section("access", access::read),
        log: root.section("log", |section| Log {
            format: section.take_or(
                "format",
                value::one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
                Log::default().format,
            ),
            level: section.take_or("level", value::level, Log::default().level),
        }),
        telemetry: root.section("telemetry", |section| Telemetry {
            otlp: section.take("otlp", value::http_url),
        }),
        relay: root.section("relay", |section| Relay {
            lease: section.take_or("lease", value::duration_from(LEASE_MIN), Relay::default().lease),
        }),
        retention: root.section("retention", read_retention),
        alerts: root.section("alerts", alert::read),
        modules: root.section("modules", |modules| {
            let read = |(name, module): &module::BuiltIn| (*name, read_module(modules, module()));
            Modules(module::BUILT_IN.iter().map(read).collect())
        }),
        brokers: root.section("brokers", broker::read),
        routes: route::read_all(root),
    }
}

/// The keys that every module has, and those that it has declared itself.
fn read_module(modules: &mut Section<'_>, module: Module) -> ModuleSettings {
    modules.section(module.name, |section| {
        let enabled = section.take("enabled", value::flag);
        let broker = section.take("broker", value::broker);
        let (own, queue) = read_own(section, module);
        ModuleSettings {
            enabled,
            broker: queue::broker(section, broker, queue.as_ref()),
            queue,
            own,
        }
    })
}

/// The module's own keys, and what they say about its queue.
fn read_own(section: &mut Section<'_>, module: Module) -> (Table, Option<Queue>) {
    if !module.wants_settings() {
        return (Table::new(), module.queue); // any other key is unknown
    }
    let own = section.take_rest();
    match module::configure(module, own.clone()) {
        Ok(module) => (own, module.queue),
        Err(error) => {
            for Mistake { key, says } in error.mistakes {
                section.wrong(&key, &says);
            }
            (own, None)
        }
    }
}

/// A module or route that uses a broker needs the broker's address, and a route with Kafka transactions has one shard.
fn check_brokers(root: &mut Section<'_>, config: &Config) {
    let mut missing = |key: String, kind: BrokerKind| {
        if config.brokers.url(kind).is_none() {
            root.wrong(
                &key,
                &format!("{kind} has no address; add [brokers.{kind}] with its url"),
            );
        }
    };
    for (name, settings) in &config.modules.0 {
        if let Some(kind) = settings.broker {
            let is_queue = settings
                .queue
                .as_ref()
                .is_some_and(|queue| queue.is_enabled == Some(true));
            let key = if is_queue { "message_queue.enabled" } else { "broker" };
            missing(format!("modules.{name}.{key}"), kind);
        }
    }
    for (at, route) in config.routes.iter().enumerate() {
        if let route::Destination::Broker(kind) = &route.to {
            missing(format!("routes[{at}].to"), *kind);
        }
    }
    for (at, route) in config.routes.iter().enumerate() {
        let is_to_kafka = route.to == route::Destination::Broker(BrokerKind::Kafka);
        if config.brokers.kafka.options.is_transactional && is_to_kafka && route.shards > 1 {
            let says =
                "must be 1 with producer = \"transactional\": relays that share a route would fence off each other";
            root.wrong(&format!("routes[{at}].shards"), says);
        }
    }
}

/// A route keeps its progress under its name, and a subscriber is a route too.
fn check_names(root: &mut Section<'_>, config: &Config) {
    for module in module::enabled(config) {
        let groups = module.subscribers.iter().map(|one| ("subscriber", &one.group));
        let routes = module.routes.iter().map(|one| ("route", &one.name));
        for (what, name) in groups.chain(routes) {
            let is_taken = |(_, route): &(usize, &route::Route)| route.name == *name;
            for (at, _) in config.routes.iter().enumerate().filter(is_taken) {
                let says = format!(
                    "{name:?} is the name of a {what} of the module {}; progress is kept by name, so choose another",
                    module.name
                );
                root.wrong(&format!("routes[{at}].name"), &says);
            }
        }
    }
}

fn read_retention(section: &mut Section<'_>) -> Retention {
    let default = Retention::default();
    let outbox = section.take_or("outbox", value::duration, default.outbox);
    let inbox = section.take_or("inbox", value::duration, default.inbox.max(outbox));
    if section.is_clean() && inbox < outbox {
        let says =
            "must be at least as long as retention.outbox: a replayed event would otherwise have its effect twice";
        section.wrong("inbox", says);
    }
    let archive = section.take_or("archive", value::flag, default.archive);
    Retention {
        outbox,
        inbox,
        dead: section.take_or("dead", value::duration, default.dead),
        archive,
        daily_at: section.take("daily_at", value::time_of_day),
    }
}

/// Puts `POSTROOM__SECTION__KEY=value`, and variables that modules know by another name, over what the file says.
fn overlay(table: &mut Table, environment: impl IntoIterator<Item = (String, String)>, mistakes: &mut Mistakes) {
    let of_modules = module::variables();
    let own = |variable: &str| -> Option<Vec<String>> {
        let name = variable.strip_prefix(PREFIX)?;
        Some(name.split("__").map(str::to_lowercase).collect())
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (variable, text) in environment {
        if let Some(path) = own(&variable) {
            ours.push((path, variable, text));
        } else if let Some(path) = of_modules.get(variable.as_str()) {
            theirs.push((path.clone(), variable, text));
        }
    }
    for (path, variable, text) in theirs.into_iter().chain(ours) {
        mistakes.came_from(path.join("."), variable.clone());
        if !put(table, &path, typed(&text)) {
            mistakes.add(&path.join("."), "lies inside something that is not a table");
        }
    }
}

/// Whether there was a place for it.
fn put(table: &mut Table, path: &[String], value: Value) -> bool {
    match path {
        [] => false,
        [key] => {
            table.insert(key.clone(), value);
            true
        }
        [key, rest @ ..] => match table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => put(inner, rest, value),
            _ => false,
        },
    }
}

/// Parses a value as TOML (`true`, `7`, a list), and takes any other value as text.
fn typed(text: &str) -> Value {
    let document = format!("value = {text}").parse::<Table>();
    let value = document
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Shop {
        seats: u32,
        till: Till,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Till {
        float: u32,
    }

    /// The settings of a module that has some, and every mistake in them.
    fn shop(toml: &str, environment: &[(&str, &str)]) -> (ModuleSettings, Vec<String>) {
        let (mut table, mut mistakes) = (toml.parse().unwrap(), Mistakes::default());
        let owned = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        overlay(&mut table, owned, &mut mistakes);
        let mut root = Section::new("", table, &mut mistakes);
        let module = Module::new("shop").settings(|module, _shop: Shop| module);
        let settings = root.section("modules", |modules| read_module(modules, module));
        root.finish();
        (settings, mistakes.into_vec())
    }

    #[test]
    fn a_module_takes_the_settings_that_it_has_declared() {
        let toml = "[modules.shop]\nenabled = true\nseats = 7\ntill.float = 100";
        let (settings, mistakes) = shop(toml, &[("POSTROOM__MODULES__SHOP__SEATS", "8")]);
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(settings.enabled, Some(true));
        assert_eq!(settings.own, "seats = 8\ntill.float = 100".parse().unwrap());
    }

    #[test]
    fn a_setting_that_a_module_does_not_know_is_named() {
        let (_, mistakes) = shop("[modules.shop]\nseat = 7\ntill.flaot = 1", &[]);
        let unknown = "unknown key; the module has no such setting";
        assert_eq!(
            mistakes,
            [
                format!("modules.shop.seat: {unknown}"),
                format!("modules.shop.till.flaot: {unknown}")
            ]
        );
        let (_, mistakes) = shop("", &[("POSTROOM__MODULES__SHOP__TILL__FLOAT", "much")]);
        let says = "modules.shop.till.float (from POSTROOM__MODULES__SHOP__TILL__FLOAT): invalid type: string \"much\", expected u32";
        assert_eq!(mistakes, [says]);
    }
}
