//! The rule by which a connection takes frames of a stream.

/// The decision of a connection about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection has this frame already.
    Drop,
    /// This frame is the next one.
    Queue,
    /// Frames before it are missing: the database has them.
    Repair,
}

/// A subscription that is opening takes nothing: every number counts as sent.
pub(crate) const OPENING: u64 = u64::MAX;

/// Decides about the frame with this number, if all frames up to `sent` were sent.
pub(crate) fn decide(seq: u64, sent: u64) -> Verdict {
    match seq.checked_sub(sent) {
        None | Some(0) => Verdict::Drop,
        Some(1) => Verdict::Queue,
        Some(_) => Verdict::Repair,
    }
}

/// How many of the frames after `after` follow each other without a hole.
pub(crate) fn contiguous(after: u64, seqs: impl IntoIterator<Item = u64>) -> usize {
    let expected = (0..).map(|step| after.checked_add(step + 1));
    seqs.into_iter()
        .zip(expected)
        .take_while(|(seq, expected)| Some(*seq) == *expected)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_sent_once_and_in_order() {
        let check =
            |seq: u64, sent: u64, expected: Verdict| assert_eq!(decide(seq, sent), expected, "{seq} after {sent}");
        check(0, 0, Verdict::Drop);
        check(1, 0, Verdict::Queue);
        check(2, 0, Verdict::Repair);
        check(7, 7, Verdict::Drop);
        check(6, 7, Verdict::Drop);
        check(8, 7, Verdict::Queue);
        check(9, 7, Verdict::Repair);
        check(u64::MAX, u64::MAX - 1, Verdict::Queue);
        check(u64::MAX, 0, Verdict::Repair);
        check(1, OPENING, Verdict::Drop);
        check(u64::MAX, OPENING, Verdict::Drop);
    }

    #[test]
    fn a_hole_ends_what_can_be_sent() {
        let check = |after: u64, seqs: &[u64], expected: usize| {
            assert_eq!(
                contiguous(after, seqs.iter().copied()),
                expected,
                "{seqs:?} after {after}"
            );
        };
        check(0, &[], 0);
        check(0, &[1, 2, 3], 3);
        check(5, &[6, 7, 9], 2);
        check(5, &[8, 9], 0);
        check(5, &[5, 6], 0);
        check(u64::MAX, &[u64::MAX], 0);
    }
}
