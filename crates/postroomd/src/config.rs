//! The configuration: typed values with defaults, read once from `postroom.toml` and `POSTROOM__SECTION__KEY`.

mod access;
mod alert;
mod broker;
mod queue;
mod read;
mod route;
mod section;
mod server;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom_address::{BrokerKind, StoreUrl};
use postroom_host::{Module, Queue, Retention};
use postroom_telemetry::LogFormat;
use toml::Table;

use crate::module::BUILT_IN;

pub(crate) use access::Access;
pub(crate) use alert::Alerts;
pub(crate) use broker::Brokers;
pub(crate) use queue::of_queue;
pub(crate) use route::{Destination, Route};
pub(crate) use server::Server;
pub(crate) use value::parse_duration;

/// Every key with its default, as `postroom config print` shows it.
pub(crate) const REFERENCE: &str = include_str!("config/reference.toml");

/// The file that is read when no other is named.
const FILE: &str = "postroom.toml";

/// Of a relay's lease, and of those that a broker knows.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// A configuration that cannot be used: everything that is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Unusable(pub(crate) Vec<String>);

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "{} mistakes\n  {}", several.len(), several.join("\n  ")),
        }
    }
}

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) server: Server,
    pub(crate) access: Access,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    pub(crate) relay: Relay,
    pub(crate) retention: Retention,
    pub(crate) alerts: Alerts,
    pub(crate) brokers: Brokers,
    pub(crate) routes: Vec<Route>,
    pub(crate) modules: Modules,
}

/// `[store]`
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Store {
    pub(crate) url: StoreUrl,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: String,
}

/// `[telemetry]`
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Telemetry {
    pub(crate) otlp: Option<String>,
}

/// `[relay]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relay {
    pub(crate) lease: Duration,
}

/// `[modules]`: what is said about each, by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Modules(pub(crate) BTreeMap<&'static str, ModuleSettings>);

impl Default for Modules {
    fn default() -> Self {
        let unset = |module: fn() -> Module| ModuleSettings {
            queue: crate::module::configure(module(), Table::new()).map_or(None, |module| module.queue),
            ..ModuleSettings::default()
        };
        Self(BUILT_IN.map(|(name, module)| (name, unset(module))).into())
    }
}

impl Modules {
    /// Whether a module is switched on or off, if the configuration says so.
    pub(crate) fn enabled(&self, module: &str) -> Option<bool> {
        self.0.get(module)?.enabled
    }

    /// The module's own settings.
    pub(crate) fn own(&self, module: &str) -> Table {
        self.0
            .get(module)
            .map(|settings| settings.own.clone())
            .unwrap_or_default()
    }

    /// Switches all of them on; those that are switched off too, if `all`.
    pub(crate) fn switch_on(&mut self, all: bool) {
        for settings in self.0.values_mut() {
            settings.enabled = settings.enabled.filter(|_| !all).or(Some(true));
        }
    }

    /// The queue of a module whose topic other programs know by name.
    pub(crate) fn queue(&self, module: &str) -> Option<&Queue> {
        self.0.get(module)?.queue.as_ref()
    }

    /// The broker that feeds a module's subscribers, if one does.
    pub(crate) fn broker(&self, module: &str) -> Option<BrokerKind> {
        self.0.get(module)?.broker
    }
}

/// `[modules.hello]` and the like.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ModuleSettings {
    /// Absent: only on the built-in file, because its events and cursors do not belong in the operator's own database.
    pub(crate) enabled: Option<bool>,
    /// Absent: its subscribers are fed straight from the outbox.
    pub(crate) broker: Option<BrokerKind>,
    /// How its broker feeds it, if other programs know its topic by name.
    pub(crate) queue: Option<Queue>,
    /// Every other key: settings that the module has declared itself.
    pub(crate) own: Table,
}

/// The module's own settings may hold secrets, so only their keys are shown.
impl fmt::Debug for ModuleSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own: Vec<&String> = self.own.keys().collect();
        write!(f, "ModuleSettings({:?}, {:?}, {own:?})", self.enabled, self.broker)
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".to_owned(),
        }
    }
}

impl Default for Relay {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Reads the named file, or `postroom.toml` if there is one, and the environment over it.
    pub(crate) fn load(file: Option<&Path>, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let file = match file {
            Some(file) => Some(file.to_owned()),
            None => Some(PathBuf::from(FILE)).filter(|file| file.exists()),
        };
        let text = match &file {
            Some(file) => {
                std::fs::read_to_string(file).with_context(|| format!("read the configuration {}", file.display()))?
            }
            None => String::new(),
        };
        let from = file.map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
        Self::read(&text, environment).with_context(|| format!("the configuration ({from}) cannot be used"))
    }

    /// Reads a configuration; the error lists every mistake.
    pub(crate) fn read(toml: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        match read::read(toml, environment) {
            Ok(config) => Ok(config),
            Err(found) => bail!(Unusable(found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::time;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn none() -> [(String, String); 0] {
        []
    }

    #[test]
    fn the_printed_reference_is_the_default() {
        assert_eq!(Config::read(REFERENCE, none()).unwrap(), Config::default());
        assert_eq!(Config::read("", none()).unwrap(), Config::default());
    }

    #[test]
    fn the_examples_in_the_reference_are_valid_and_show_the_defaults() {
        let examples: String = REFERENCE
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix("#: ").unwrap_or(line)))
            .collect();
        let config = Config::read(&examples, none()).unwrap();
        assert_eq!(config.routes, [Route::new("everything", Destination::Log)]);
        assert_eq!(config.modules.enabled("hello"), Some(true));
    }

    #[test]
    fn the_commerce_profile_has_its_numbers() {
        let profile = include_str!("../../../deploy/profiles/commerce.toml");
        let config = Config::read(profile, none()).unwrap();
        let kafka = Destination::Broker(BrokerKind::Kafka);
        let expected = Route {
            patterns: vec!["loopers.**".to_owned()],
            ordering: postroom::Ordering::Strict,
            batch: 100,
            retry: postroom::Retry {
                delays: postroom::Delays::Fixed(Duration::from_secs(10)),
                attempts_max: None,
                age_max: Some(Duration::from_secs(5 * 60)),
            },
            dead: postroom::Dead::Skip, // and the line goes on
            ..Route::new("commerce", kafka)
        };
        assert_eq!(config.routes, [expected]);
        assert_eq!(config.retention.inbox, 7 * DAY);
        assert_eq!(config.store.url.kind(), postroom_address::StoreKind::Postgres);
        assert_eq!(config.modules.broker("commerce"), Some(BrokerKind::Kafka));
    }

    #[test]
    fn the_ledger_profile_has_its_numbers() {
        let profile = include_str!("../../../deploy/profiles/ledger.toml");
        let config = Config::read(profile, none()).unwrap();
        let expected = Route {
            patterns: vec!["ledger.**".to_owned()],
            topic: "ledger-events".parse().unwrap(),
            batch: 100,
            retry: postroom::Retry {
                delays: postroom::Delays::Fixed(Duration::from_secs(2)),
                attempts_max: Some(5),
                age_max: None,
            },
            dead: postroom::Dead::Hold, // later events of the account wait for a person
            record: true,
            ..Route::new("ledger", Destination::Broker(BrokerKind::Kafka))
        };
        assert_eq!(config.routes, [expected]);
        assert_eq!(config.retention.outbox, 7 * DAY);
        assert_eq!(config.alerts.every, Duration::from_secs(30));
    }

    #[test]
    fn the_tasteam_profile_has_its_numbers() {
        let profile = include_str!("../../../deploy/profiles/tasteam.toml");
        let config = Config::read(profile, none()).unwrap();
        assert_eq!(config.store.url.kind(), postroom_address::StoreKind::Postgres);
        assert_eq!(config.modules.broker("activity"), Some(BrokerKind::Redis));
        let own = config.modules.own("activity");
        let settings: postroom_activity::Settings = own.try_into().unwrap();
        let default = postroom_activity::Settings::default(); // the numbers of the specification, by a test of its own
        let expected = postroom_activity::Settings {
            message_queue: settings.message_queue.clone(),
            client_events: settings.client_events.clone(),
            mode: Some(postroom_activity::Mode::InternalOnly),
            posthog: postroom_activity::PosthogSettings {
                enabled: Some(false),
                ..default.posthog
            },
            ..default
        };
        assert_eq!(settings, expected);
        let options = of_queue(&config.brokers.redis.options, config.modules.queue("activity").unwrap());
        assert_eq!((options.stream.as_str(), options.partitions), ("{topic}", 1));
    }

    #[test]
    fn every_mistake_is_reported_at_once() {
        let toml = r#"
            [store]
            url = "oracle://scott:tiger@localhost/orcl"
            [server]
            listen = "localhost"
            port = 8080
            [log]
            format = "xml"
            level = "info,,=="
            [relay]
            lease = "soon"
            [retention]
            outbox = 7
            archive = "maybe"
            daily_at = "dawn"
            [modules.hello]
            enabled = 1
            [modules.shopping]
            broker = "kafka"
            [sever]
            listen = "127.0.0.1:1"
            [[routes]]
            name = "orders"
            match = [""]
            to = "kafka"
            topic = "{domain}-events"
            ordering = "random"
            retry = { delays = ["1s", "5x"], attempts_max = 0, age_max = -5 }
            probe = "500ms"
            dead = "bury"
            start = "middle"
            batch = 0
            shards = 5000
            [[routes]]
            name = "orders"
            match = ["shop.**.paid"]
            to = "null"
            retry = { fixed = "2s", exponential = { first = "5m", max = "1s" } }
            [[routes]]
            match = "shop.**"
        "#;
        insta::assert_snapshot!(Config::read(toml, none()).unwrap_err());
    }

    #[test]
    fn the_environment_wins_and_its_mistakes_name_the_variable() {
        let environment = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let toml = "[server]\nlisten = \"127.0.0.1:1\"\n[retention]\noutbox = \"1d\"";
        let good = environment(&[
            ("POSTROOM__SERVER__LISTEN", "127.0.0.1:2"),
            ("POSTROOM__RETENTION__ARCHIVE", "true"),
            ("POSTROOM__STORE__URL", "postgres://app@db/app"),
            ("POSTROOM__MODULES__HELLO__ENABLED", "false"),
            ("POSTROOM__ROUTES", r#"[{ name = "all", to = "null" }]"#),
            ("POSTROOM_HOME", "/nowhere"),
            ("HOME", "/home/ada"),
        ]);
        let config = Config::read(toml, good).unwrap();
        assert_eq!(config.server.listen.port(), 2);
        assert!(config.retention.archive);
        assert_eq!(config.retention.outbox, DAY);
        assert_eq!(config.store.url.to_string(), "postgres://app@db/app");
        assert_eq!(config.modules.enabled("hello"), Some(false));
        assert_eq!(config.routes, [Route::new("all", Destination::Null)]);
        let bad = environment(&[
            ("POSTROOM__RELAY__LEASE", "1"),
            ("POSTROOM__STORR__URL", "x"),
            ("POSTROOM__LOG", "loud"),
        ]);
        insta::assert_snapshot!(Config::read(toml, bad).unwrap_err());
    }

    #[test]
    fn the_inbox_remembers_as_long_as_the_outbox_keeps() {
        let error = Config::read("[retention]\noutbox = \"2d\"\ninbox = \"1d\"", none())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("retention.inbox: must be at least as long as retention.outbox"),
            "{error}"
        );
        assert_eq!(
            Config::read("[retention]\noutbox = \"30d\"", none())
                .unwrap()
                .retention
                .inbox,
            30 * DAY
        );
    }

    #[test]
    fn retention_is_every_minute_unless_it_has_an_hour() {
        let daily_at = |toml| Config::read(toml, none()).unwrap().retention.daily_at;
        assert_eq!(daily_at(""), None);
        assert_eq!(daily_at("[retention]\ndaily_at = \"19:30\""), Some(time!(19:30)));
        for said in ["04:00", "04:00:00", "\"04:00\""] {
            let environment = [("POSTROOM__RETENTION__DAILY_AT".to_owned(), said.to_owned())];
            let config = Config::read("", environment);
            assert_eq!(config.unwrap().retention.daily_at, Some(time!(4:00)), "{said}");
        }
        for said in ["04:00:30", "4", "2026-01-01T04:00:00", "24:00"] {
            let environment = [("POSTROOM__RETENTION__DAILY_AT".to_owned(), said.to_owned())];
            let mistake = Config::read("", environment).unwrap_err().to_string();
            assert!(
                mistake.contains("a time of day in UTC such as \"04:00\""),
                "{said}: {mistake}"
            );
        }
    }

    #[test]
    fn a_route_probes_by_backoff_unless_it_has_an_interval() {
        let probe = |line: &str| {
            let toml = format!("[[routes]]\nname = \"all\"\nto = \"null\"\n{line}");
            Config::read(&toml, none()).unwrap().routes[0].probe
        };
        assert_eq!(probe(""), postroom::Probe::Backoff);
        assert_eq!(probe("probe = \"backoff\""), postroom::Probe::Backoff);
        assert_eq!(
            probe("probe = \"60s\""),
            postroom::Probe::every(Duration::from_secs(60))
        );
    }

    #[test]
    fn broken_toml_says_where() {
        insta::assert_snapshot!(Config::read("[server]\nlisten = 127.0.0.1", none()).unwrap_err());
    }
}
