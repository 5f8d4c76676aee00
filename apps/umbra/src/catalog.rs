//! Event declarations: one line sets the aggregate of an event and adds it to the module's catalogue.

/// Implements `DomainEvent` for each type, with the type's name as the event type, and lists the types for the module.
macro_rules! catalog {
    ($($event:ident of $aggregate:literal by $id:ident,)+) => {
        $(impl postroom::DomainEvent for $event {
            const TYPE: &'static str = stringify!($event);
            const AGGREGATE_TYPE: &'static str = $aggregate;

            fn aggregate_id(&self) -> String {
                self.$id.clone()
            }
        })+

        /// The names of all events of this context.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($event)),+];

        /// Adds all events of this context to the module.
        pub(crate) fn declare(module: postroom_host::Module) -> postroom_host::Module {
            module$(.event::<$event>())+
        }
    };
}

pub(crate) use catalog;
