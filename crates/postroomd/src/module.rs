//! Which modules this process runs.

use std::collections::HashMap;

use postroom::Migration;
use postroom_address::{BrokerKind, PLATFORM};
use postroom_host::{Misconfigured, Module, Topics};
use toml::Table;

use crate::config::Config;

/// A module, by the name of its section in the configuration.
pub(crate) type BuiltIn = (&'static str, fn() -> Module);

/// The name of an owner of tables, and its migrations.
pub(crate) type Owner = (&'static str, Vec<Migration>);

/// A group, and the topics that it reads.
pub(crate) type Group = (String, Vec<String>);

/// Every module that this binary has.
pub(crate) const BUILT_IN: [BuiltIn; 7] = [
    ("hello", hello::module),
    ("ledger", ledger::module),
    ("commerce", commerce::module),
    ("umbra", umbra::module),
    ("tasteam", tasteam_activity::tasteam),
    ("activity", tasteam_activity::activity),
    ("community", community::module),
];

/// The modules that are on with this configuration, with their settings: on the built-in file all that are not switched off,
/// elsewhere those that are switched on.
pub(crate) fn enabled(config: &Config) -> Vec<Module> {
    let is_built_in = config.store.url.is_built_in();
    let is_on = |name: &str| config.modules.enabled(name).unwrap_or(is_built_in);
    all(config).into_iter().filter(|module| is_on(module.name)).collect()
}

/// The remaining parts of modules with `enabled = false`. A module without this key is not listed: another process may run it.
pub(crate) fn switched_off(config: &Config) -> Vec<Module> {
    let is_off = |name: &str| config.modules.enabled(name) == Some(false);
    let off = all(config).into_iter().filter(|module| is_off(module.name));
    off.filter_map(|module| {
        let queues = BrokerKind::ALL.map(|kind| queue_feed(kind, module.name));
        let kinds = BrokerKind::ALL.iter().map(|kind| kind.name());
        module.switched_off(kinds.chain(queues.iter().map(String::as_str)))
    })
    .collect()
}

/// The name of a feed with a queue of one module.
pub(crate) fn queue_feed(kind: BrokerKind, module: &str) -> String {
    format!("{kind}-{module}")
}

/// Every module, with its settings, also if it is off.
pub(crate) fn all(config: &Config) -> Vec<Module> {
    let configured = |(name, module): &BuiltIn| {
        // Reading a configuration refuses settings that a module cannot use, so none is replaced by its defaults here.
        configure(module(), config.modules.own(name)).unwrap_or_else(|_refused| module())
    };
    BUILT_IN.iter().map(configured).collect()
}

/// Environment variables by which modules know their settings, each with the path of the setting.
pub(crate) fn variables() -> HashMap<&'static str, Vec<String>> {
    let of_module = |(name, module): &BuiltIn| {
        let path = move |key: &str| {
            ["modules", name]
                .into_iter()
                .chain(key.split('.'))
                .map(str::to_owned)
                .collect()
        };
        let variables = module().variables.into_iter();
        variables
            .map(move |(variable, key)| (variable, path(key)))
            .collect::<Vec<_>>()
    };
    BUILT_IN.iter().flat_map(of_module).collect()
}

/// The owners of tables in the store: the platform, and the modules that are on.
pub(crate) fn owners(config: &Config) -> Vec<Owner> {
    let database = config.store.url.kind().backend();
    let modules = enabled(config).into_iter();
    let modules = modules.map(|module| (module.name, module.migrations(database)));
    let platform = (PLATFORM, config.store.url.migrations().to_vec());
    std::iter::once(platform).chain(modules).collect()
}

/// The groups of those modules that this broker feeds.
pub(crate) fn groups(kind: BrokerKind, config: &Config, modules: &[Module]) -> Vec<Group> {
    let topics = Topics::of(modules);
    let fed = modules
        .iter()
        .filter(|module| config.modules.broker(module.name) == Some(kind));
    fed.flat_map(|module| topics.groups(module)).collect()
}

/// The module with the settings of its own section.
pub(crate) fn configure(module: Module, own: Table) -> Result<Module, Misconfigured> {
    let json = |value| serde_json::to_value(value).unwrap_or_default(); // TOML has no value that JSON lacks
    module.configure(own.into_iter().map(|(key, value)| (key, json(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `postroom topics` and `postroom doctor` ask this.
    #[test]
    fn a_straight_subscriber_is_no_group_of_the_broker() {
        let config = Config::read(
            "[brokers.redis]\nurl = \"redis://a\"\n[modules.hello]\nbroker = \"redis\"",
            [],
        );
        let (config, mut modules) = (config.unwrap(), [hello::module()]);
        let names = |modules: &[Module]| -> Vec<String> {
            let groups = groups(BrokerKind::Redis, &config, modules);
            groups.into_iter().map(|(group, _)| group).collect()
        };
        let all = names(&modules);
        let first = modules[0].subscribers.remove(0);
        let straight = first.group.clone();
        modules[0].subscribers.insert(0, first.straight());
        let others: Vec<String> = all.iter().filter(|group| **group != straight).cloned().collect();
        assert_eq!(names(&modules), others);
        assert_eq!(others.len() + 1, all.len());
    }
}
