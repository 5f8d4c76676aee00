//! Group chat: rooms, their members and their messages.

use postroom_host::Module;

/// Adds chat to the module.
pub(crate) fn join(module: Module) -> Module {
    module
}
