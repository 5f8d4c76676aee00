//! Which broker feeds a module, and under which names: `broker` of the module's section, or the names of its own specification
//! (`message_queue`). Both are one setting; where they contradict each other, the mistake names both keys.

use postroom_address::BrokerKind;
use postroom_host::Queue;

use super::Modules;
use super::broker::Brokers;
use super::section::Section;

/// The broker that feeds a module, by `broker` and by what the module's own settings say.
pub(super) fn broker(
    section: &mut Section<'_>,
    broker: Option<BrokerKind>,
    queue: Option<&Queue>,
) -> Option<BrokerKind> {
    let Some(queue) = queue else { return broker };
    let provider = queue.provider.and_then(BrokerKind::named);
    let place = section.path_of("broker");
    match (queue.is_enabled, broker) {
        (Some(false), Some(kind)) => {
            let says = format!("is false, and {place} is \"{kind}\"; remove one of the two");
            section.wrong("message_queue.enabled", &says);
            None
        }
        (_, Some(kind)) => {
            if let Some(provider) = provider.filter(|provider| *provider != kind) {
                let says = format!("is \"{provider}\", and {place} is \"{kind}\"; remove one of the two");
                section.wrong("message_queue.provider", &says);
            }
            Some(kind)
        }
        (Some(true), None) => Some(provider.unwrap_or(BrokerKind::Redis)),
        (Some(false) | None, None) => None,
    }
}

/// Names that the queue of a module and the section of its broker both give.
pub(super) fn check(root: &mut Section<'_>, brokers: &Brokers, modules: &Modules) {
    for (name, settings) in &modules.0 {
        let (Some(queue), Some(kind)) = (&settings.queue, settings.broker) else {
            continue;
        };
        let mut wrong = |key: &str, says: &str| root.wrong(&format!("modules.{name}.message_queue.{key}"), says);
        if kind != BrokerKind::Redis {
            let says = format!("is for Redis, and modules.{name}.broker is \"{kind}\"; remove one of the two");
            for (key, is_set) in [
                ("topic_prefix", queue.topic_prefix.is_some()),
                ("poll_timeout_millis", queue.poll_timeout.is_some()),
            ] {
                if is_set {
                    wrong(key, &says);
                }
            }
        } else if queue.topic_prefix.is_some() && !brokers.redis.prefix.is_empty() {
            wrong(
                "topic_prefix",
                "names the stream, and so does brokers.redis.prefix; remove one of the two",
            );
        } else if queue.topic_prefix.is_some() && !brokers.redis.options.has_plain_stream() {
            wrong(
                "topic_prefix",
                "names the stream, and so does brokers.redis.stream; remove one of the two",
            );
        } else if let Err(error) = of_queue(&brokers.redis.options, queue).check_stream() {
            wrong("topic_prefix", &error.report());
        }
    }
}

/// Redis with the names of a module's queue: its topic is one stream with exactly its name.
pub(crate) fn of_queue(redis: &postroom_redis::Options, queue: &Queue) -> postroom_redis::Options {
    postroom_redis::Options {
        poll_timeout: queue.poll_timeout.unwrap_or(redis.poll_timeout),
        ..redis.one_stream(queue.topic_prefix.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Config;
    use super::*;

    fn read(toml: &str) -> anyhow::Result<Config> {
        Config::read(toml, [])
    }

    fn said(toml: &str) -> String {
        read(toml).unwrap_err().to_string()
    }

    const REDIS: &str = "[brokers.redis]\nurl = \"redis://a\"\n";

    #[test]
    fn both_names_of_the_setting_mean_the_same() {
        let fed = |module: &str| {
            let config = read(&format!("{REDIS}[modules.activity]\n{module}")).unwrap();
            config.modules.broker("activity")
        };
        assert_eq!(fed(""), None);
        assert_eq!(fed("message_queue.enabled = false"), None);
        assert_eq!(fed("message_queue.provider = \"redis-stream\""), None, "not enabled");
        assert_eq!(fed("message_queue.enabled = true"), Some(BrokerKind::Redis));
        assert_eq!(fed("broker = \"redis\""), Some(BrokerKind::Redis));
        let both = "broker = \"redis\"\nmessage_queue = { enabled = true, provider = \"redis\" }";
        assert_eq!(fed(both), Some(BrokerKind::Redis));
    }

    #[test]
    fn a_contradiction_names_both_keys() {
        let check = |toml: &str, key: &str, other: &str| {
            let kafka = "[brokers.kafka]\nurl = \"kafka://a:1\"\n";
            let said = said(&format!("{kafka}{toml}"));
            assert!(
                said.starts_with(&format!("modules.activity.message_queue.{key}: ")),
                "{said}"
            );
            assert!(said.contains(other), "{said}");
        };
        let activity = |keys: &str| format!("{REDIS}[modules.activity]\n{keys}");
        check(
            &activity("broker = \"redis\"\nmessage_queue.enabled = false"),
            "enabled",
            "modules.activity.broker",
        );
        check(
            &activity("broker = \"kafka\"\nmessage_queue.provider = \"redis\""),
            "provider",
            "modules.activity.broker",
        );
        for key in ["topic_prefix = \"a\"", "poll_timeout_millis = 7"] {
            let toml = activity(&format!("broker = \"kafka\"\nmessage_queue.{key}"));
            check(&toml, key.split(' ').next().unwrap(), "modules.activity.broker");
        }
        let prefixed = "[modules.activity.message_queue]\nenabled = true\ntopic_prefix = \"a\"\n";
        check(
            &format!("{REDIS}prefix = \"b\"\n{prefixed}"),
            "topic_prefix",
            "brokers.redis.prefix",
        );
        check(
            &format!("{REDIS}stream = \"b:{{topic}}\"\npartitions = 1\n{prefixed}"),
            "topic_prefix",
            "brokers.redis.stream",
        );
        check(
            &activity("broker = \"redis\"\nmessage_queue.topic_prefix = \"{\""),
            "topic_prefix",
            "braces",
        );
    }

    #[test]
    fn a_queue_without_a_redis_is_a_mistake() {
        let said = said("[modules.activity.message_queue]\nenabled = true");
        assert_eq!(
            said,
            "modules.activity.message_queue.enabled: redis has no address; add [brokers.redis] with its url"
        );
    }

    #[test]
    fn the_topic_is_one_stream_with_its_name() {
        let check = |redis: &str, queue: &str, stream: &str, poll: u64| {
            let config = read(&format!(
                "{REDIS}{redis}\n[modules.activity.message_queue]\nenabled = true\n{queue}"
            ));
            let config = config.unwrap();
            let queue = config.modules.queue("activity").unwrap();
            let options = of_queue(&config.brokers.redis.options, queue);
            assert_eq!((options.stream.as_str(), options.partitions), (stream, 1));
            assert_eq!(options.poll_timeout, Duration::from_millis(poll));
        };
        check("", "", "{topic}", 5_000);
        check("partitions = 9", "poll_timeout_millis = 700", "{topic}", 700);
        check("", "topic_prefix = \"tasteam:\"", "tasteam:{topic}", 5_000);
        check("stream = \"a:{topic}\"\npartitions = 1", "", "a:{topic}", 5_000);
        check(
            "stream = \"a:{{topic}}:{number}\"",
            "topic_prefix = \"b.\"",
            "b.{topic}",
            5_000,
        );
    }
}
