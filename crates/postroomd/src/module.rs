//! Which modules this process runs.

use postroom_host::Module;

use crate::config::Config;
use crate::store::StoreUrl;

/// A module, by the name of its section in the configuration.
type BuiltIn = (&'static str, fn() -> Module);

/// Every module that this binary has.
pub(crate) const BUILT_IN: [BuiltIn; 4] = [
    ("hello", hello::module),
    ("ledger", ledger::module),
    ("commerce", commerce::module),
    ("umbra", umbra::module),
];

/// The modules that are on with this configuration: on the built-in file all that are not switched off, elsewhere those that
/// are switched on.
pub(crate) fn enabled(config: &Config) -> Vec<Module> {
    let is_built_in = config.store.url == StoreUrl::default();
    let is_on = |name: &str| config.modules.get(name).enabled.unwrap_or(is_built_in);
    let on = BUILT_IN.iter().filter(|(name, _)| is_on(name));
    on.map(|(_, module)| module()).collect()
}
