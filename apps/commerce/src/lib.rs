//! A shop: likes, orders, views and stock, and what is counted from them.

use postroom_host::Module;

/// The module.
pub fn module() -> Module {
    Module::new("commerce")
}
