//! What a watch connection carries: the words of an exported region, for the process that follows
//! it. A call turns a connection into a watch; from its answer on it carries these frames alone.
//!
//! | frame | by | body | means |
//! |---|---|---|---|
//! | notice | agent | changes told, then spans | these words have these values now |
//! | seen | follower | changes seen | the follower has stored all notices up to this count |
//! | ping | follower | its time | the follower asks for a lease that began then |
//! | pong | agent | that time | it has the lease |
//! | leave | follower | | its process answers for the words no more |
//! | the end | agent | | the watch is closing: the follower is to leave |
//!
//! ```text
//! span    word 0   first word of the region 32 | words 32
//!         the words, at most `SPAN_WORDS_MAX`
//! ```
//!
//! The spans stand in the order in which the changes took effect. A notice that has only a part of
//! the changes that wait repeats the count of the notice before it.

use super::wire::{Head, Kind};

/// Words of one span at most.
pub(super) const SPAN_WORDS_MAX: usize = 4 << 10;
/// Words of the body of a notice at most.
pub(super) const NOTICE_WORDS_MAX: usize = 8 << 10;

const _: () = assert!(2 + SPAN_WORDS_MAX <= NOTICE_WORDS_MAX && 8 * NOTICE_WORDS_MAX <= super::wire::FRAME_BYTES_MAX);

/// Appends a span of zero words; gives the words.
pub(super) fn push_span(out: &mut Vec<u64>, first: usize, count: usize) -> &mut [u64] {
    debug_assert!(count <= SPAN_WORDS_MAX && first + count <= u32::MAX as usize);
    out.push(first as u64 | (count as u64) << 32);
    let at = out.len();
    out.resize(at + count, 0);
    &mut out[at..]
}

/// How many of the words are the whole spans that fit in a notice.
pub(super) fn spans_that_fit(spans: &[u64]) -> usize {
    let mut end = 0;
    while let Some(span) = spans.get(end) {
        let next = end + 1 + (span >> 32) as usize;
        if 1 + next > NOTICE_WORDS_MAX {
            break;
        }
        end = next;
    }
    end
}

/// Appends a frame.
pub(super) fn push_frame(out: &mut Vec<u64>, kind: Kind, body: &[u64]) {
    out.extend(Head::new(kind, 0, body.len()).encode());
    out.extend_from_slice(body);
}

/// Gives the words of a notice of a region of this many words to `store`, in order, and the count
/// of changes told. `None` if it breaks a rule; the words before that place were given.
pub(super) fn decode_notice(body: &[u64], words: usize, mut store: impl FnMut(usize, u64)) -> Option<u64> {
    let (told, mut rest) = body.split_first()?;
    while let Some((span, behind)) = rest.split_first() {
        let (first, count) = (*span as u32 as usize, (span >> 32) as usize);
        let is_sound = (1..=SPAN_WORDS_MAX).contains(&count) && first <= words && count <= words - first;
        let (values, behind) = behind.split_at_checked(count).filter(|_| is_sound)?;
        values.iter().enumerate().for_each(|(index, value)| store(first + index, *value));
        rest = behind;
    }
    Some(*told)
}

/// The body of a frame that has one word.
pub(super) fn decode_word(body: &[u64]) -> Option<u64> {
    if let [word] = body { Some(*word) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_written_and_no_word_outside_its_region_is_stored() {
        let mut body = vec![7];
        push_span(&mut body, 3, 2).copy_from_slice(&[30, 40]);
        push_span(&mut body, 0, 1).copy_from_slice(&[10]);
        let mut stored = Vec::new();
        assert_eq!(decode_notice(&body, 5, |at, word| stored.push((at, word))), Some(7));
        assert_eq!(stored, [(3, 30), (4, 40), (0, 10)]);
        assert_eq!(decode_notice(&body, 4, |at, _| assert!(at < 4)), None);
        for cut in [0, 2, 3, 5] {
            assert_eq!(decode_notice(&body[..cut], 5, |_, _| {}), None, "{cut} words");
        }
        let too_long = [0, ((SPAN_WORDS_MAX + 1) as u64) << 32];
        assert_eq!(decode_notice(&[&too_long[..], &vec![0; SPAN_WORDS_MAX + 1]].concat(), usize::MAX, |_, _| {}), None);
        assert_eq!(decode_notice(&[0, 5], 9, |_, _| {}), None, "a span without words");
        assert_eq!((decode_word(&[4]), decode_word(&[]), decode_word(&[4, 4])), (Some(4), None, None));
    }

    #[test]
    fn a_notice_takes_whole_spans() {
        let mut spans = Vec::new();
        for at in 0..3 {
            push_span(&mut spans, at, SPAN_WORDS_MAX - 1);
        }
        assert_eq!(spans_that_fit(&spans), SPAN_WORDS_MAX);
        assert_eq!(spans_that_fit(&spans[..SPAN_WORDS_MAX]), SPAN_WORDS_MAX);
        assert_eq!(spans_that_fit(&[]), 0);
    }
}
