//! A double-entry ledger whose every posting is an event.

use postroom_host::Module;

/// The module.
pub fn module() -> Module {
    Module::new("ledger")
}
