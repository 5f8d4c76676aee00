//! A subscription service: guilds, billing, licences, recovery and who is told of what.

use postroom_host::Module;

/// The module.
pub fn module() -> Module {
    Module::new("umbra")
}
