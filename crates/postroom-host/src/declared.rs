//! Event types that only a module of this process records: what is posted from outside must not pass for one of them, and the
//! module's screen cleans what may be posted.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::{Event, Screen};

use crate::access::Caller;
use crate::front::Mounted;
use crate::problem::Problem;

/// The declared types by their name in lower case and without its version, so that no other version and no other
/// spelling of a declared type is accepted either.
#[derive(Debug, Default)]
pub(crate) struct Declared(BTreeMap<String, Vec<Owner>>);

#[derive(Clone, Debug)]
struct Owner {
    module: &'static str,
    declares: &'static str,
    screen: Option<Arc<dyn Screen>>,
}

impl Declared {
    /// The types that these modules declare, and every type that an upcaster (from, to) turns into one of theirs.
    pub(crate) fn of(modules: &[Mounted], upcasts: &[(String, String)]) -> Self {
        let owners = modules.iter().flat_map(|module| {
            let owner = |declares| Owner {
                module: module.name,
                declares,
                screen: module.screen.clone(),
            };
            let events = module.events.iter();
            events.map(move |event| (without_version(event.name), owner(event.name)))
        });
        let mut declared: BTreeMap<String, Vec<Owner>> = BTreeMap::new();
        for (name, owner) in owners {
            declared.entry(name).or_default().push(owner);
        }
        // One upcaster may lead to the next: each round finds one step more.
        for _round in upcasts {
            for (from, to) in upcasts {
                if let Some(owners) = declared.get(&without_version(to)).cloned() {
                    declared.entry(without_version(from)).or_insert(owners);
                }
            }
        }
        Self(declared)
    }

    /// Refuses all events if one of them is of a type that a module declares, unless the caller is a service whose scope includes
    /// that module.
    pub(crate) fn check(&self, events: &[Event], caller: &Caller) -> Result<(), Problem> {
        let may_post = |owner: &Owner| caller.scope().is_some_and(|scope| scope.includes_module(owner.module));
        for (index, event) in events.iter().enumerate() {
            let owners = self.0.get(&without_version(&event.event_type));
            if let Some(owner) = owners.into_iter().flatten().find(|owner| !may_post(owner)) {
                return Err(refusal(index, event, owner));
            }
        }
        Ok(())
    }

    /// Cleans events of types that a module with a screen declares. Refuses all events if a screen refuses one.
    pub(crate) fn screen(&self, events: &mut [Event]) -> Result<(), Problem> {
        for (index, event) in events.iter_mut().enumerate() {
            let owners = self.0.get(&without_version(&event.event_type));
            for screen in owners.into_iter().flatten().filter_map(|owner| owner.screen.as_ref()) {
                screen.clean(event).map_err(|error| {
                    let (event_type, says) = (&event.event_type, error.report());
                    Problem::invalid(format!(
                        "event {index} of type {event_type} is refused: {says}. Nothing of this request was recorded"
                    ))
                })?;
            }
        }
        Ok(())
    }
}

fn refusal(index: usize, event: &Event, owner: &Owner) -> Problem {
    let Owner { module, declares, .. } = owner;
    let event_type = &event.event_type;
    let why = match event_type == declares {
        true => format!("the module {module} declares this type"),
        false => format!("the module {module} declares {declares}, of which it is another version or spelling"),
    };
    Problem::invalid(format!(
        "event {index} has the type {event_type}, and {why}: only that module records it, in its own transactions. Nothing of \
         this request was recorded. Use the module's own HTTP routes, a token with a scope for that module and this type, or a \
         type of your own"
    ))
}

/// `Shop.Order.Paid.v2` and `shop.order.paid` are both `shop.order.paid`.
fn without_version(event_type: &str) -> String {
    let name = match event_type.rsplit_once('.') {
        Some((name, version)) if is_version(version) => name,
        _ => event_type,
    };
    name.to_ascii_lowercase()
}

fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix(['v', 'V']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use postroom::{DomainEvent, EventType, parse_payload};
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct OrderPaid {}

    impl DomainEvent for OrderPaid {
        const TYPE: &'static str = "shop.order.paid.v2";
        const AGGREGATE_TYPE: &'static str = "order";

        fn aggregate_id(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn a_declared_type_is_refused_in_every_version_spelling_and_former_name() {
        let shop = Mounted {
            name: "shop",
            events: vec![EventType::of::<OrderPaid>()],
            screen: None,
        };
        let upcast = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let upcasts = [
            upcast("legacy.payment", "legacy.payment.received"),
            upcast("legacy.payment.received", "shop.order.paid.v1"),
            upcast("shop.order.paid.v1", "shop.order.paid.v2"),
            upcast("other.a", "other.b"),
        ];
        let declared = Declared::of(&[shop], &upcasts);
        let check = |event_type: &str, is_refused: bool| {
            let event = Event::new(event_type, "order", "1", parse_payload("{}").unwrap()).unwrap();
            assert_eq!(
                declared.check(&[event], &Caller::Anonymous).is_err(),
                is_refused,
                "{event_type}"
            );
        };
        for event_type in [
            "shop.order.paid.v2",
            "shop.order.paid.v1",
            "shop.order.paid.v3",
            "shop.order.paid.v002",
            "shop.order.paid",
            "Shop.Order.PAID.V2",
            "legacy.payment",
            "legacy.payment.received",
        ] {
            check(event_type, true);
        }
        for event_type in [
            "shop.order.lost.v2",
            "shop.order.paid.vx",
            "shop.order",
            "other.a",
            "other.b",
        ] {
            check(event_type, false);
        }
    }
}
