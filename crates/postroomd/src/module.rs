//! Which modules this process runs.

use postroom_host::{Misconfigured, Module};
use toml::Table;

use crate::config::Config;
use crate::store::StoreUrl;

/// A module, by the name of its section in the configuration.
pub(crate) type BuiltIn = (&'static str, fn() -> Module);

/// Every module that this binary has.
pub(crate) const BUILT_IN: [BuiltIn; 4] = [
    ("hello", hello::module),
    ("ledger", ledger::module),
    ("commerce", commerce::module),
    ("umbra", umbra::module),
];

/// The modules that are on with this configuration, with their settings: on the built-in file all that are not switched off,
/// elsewhere those that are switched on.
pub(crate) fn enabled(config: &Config) -> Vec<Module> {
    let is_built_in = config.store.url == StoreUrl::default();
    let is_on = |name: &str| config.modules.enabled(name).unwrap_or(is_built_in);
    let on = BUILT_IN.iter().filter(|(name, _)| is_on(name));
    // Reading a configuration refuses settings that a module cannot use, so none is replaced by its defaults here.
    on.map(|(name, module)| configure(module(), config.modules.own(name)).unwrap_or_else(|_refused| module()))
        .collect()
}

/// The module with the settings of its own section.
pub(crate) fn configure(module: Module, own: Table) -> Result<Module, Misconfigured> {
    let json = |value| serde_json::to_value(value).unwrap_or_default(); // TOML has no value that JSON lacks
    module.configure(own.into_iter().map(|(key, value)| (key, json(value))).collect())
}
