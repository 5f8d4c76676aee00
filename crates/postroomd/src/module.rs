//! Which modules this process runs.

use postroom_host::Module;

use crate::config::Config;
use crate::store::StoreUrl;

/// The modules that are on with this configuration.
pub(crate) fn enabled(config: &Config) -> Vec<Module> {
    let is_built_in = config.store.url == StoreUrl::default();
    let hello = config.modules.hello.enabled.unwrap_or(is_built_in);
    hello.then(hello::module).into_iter().collect()
}
