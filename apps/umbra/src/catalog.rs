//! Declaring events: one line says what an event belongs to, and it is in the module's catalogue.

/// Makes each type an event of an aggregate, under its own name, and lists them all for the module.
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
