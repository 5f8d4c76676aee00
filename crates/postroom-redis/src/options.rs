//! What can be chosen about the broker.

use std::time::Duration;

use postroom::Tls;

/// How the broker uses its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What every key begins with, so that programs can share a server: `postroom:`. It holds no braces.
    pub prefix: String,
    /// Partitions of a topic that is new: 4. So many members of a group can work it side by side. A topic keeps the
    /// number it was made with, because another number would send keys elsewhere.
    pub partitions: u16,
    /// How long a partition stays with a member that says nothing more: 15 s. It is renewed every third of it.
    pub lease: Duration,
    /// No step over the network takes longer: 5 s.
    pub timeout: Duration,
    /// So often may an entry be delivered to members that then die before it is given up, to become a dead letter: 20.
    /// None: for ever.
    pub deliveries_max: Option<u32>,
    /// Entries younger than this are kept although every group has acknowledged them: 1 h. A new group can begin there.
    pub keep: Duration,
    /// Streams longer than this lose their oldest entries, **also unread ones**: none. It also bounds topics that no
    /// group reads, which are otherwise never trimmed.
    pub length_max: Option<u64>,
    /// So many replicas must have an entry before it counts as delivered: 0.
    pub replicas: u32,
    /// Whom to trust at `rediss://…`: the system's authorities.
    pub tls: Tls,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "postroom:".to_owned(),
            partitions: 4,
            lease: Duration::from_secs(15),
            timeout: Duration::from_secs(5),
            deliveries_max: Some(20),
            keep: Duration::from_secs(3600),
            length_max: None,
            replicas: 0,
            tls: Tls::default(),
        }
    }
}
