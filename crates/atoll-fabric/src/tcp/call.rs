//! Calls to an agent, which are not verbs, and its answers.
//!
//! ```text
//! body    word 0   what it is
//!         then its numbers, a word each; then bytes: their count, and the bytes in whole words
//! ```

use super::wire::CALL_BYTES_MAX;

/// A call: its code, its numbers, its bytes.
macro_rules! calls {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $code:literal $variant:ident { $($field:ident),* } $($bytes:ident)?,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$inner])* $variant { $(#[allow(missing_docs)] $field: u64,)* $($bytes: Vec<u8>,)? },)*
        }

        impl $name {
            /// Appends the body.
            pub(super) fn encode(&self, out: &mut Vec<u64>) {
                match self {
                    $(Self::$variant { $($field,)* $($bytes,)? } => {
                        out.push($code);
                        $(out.push(*$field);)*
                        $(encode_bytes($bytes, out);)?
                    })*
                }
            }

            /// `None` if the body is of no such call.
            pub(super) fn decode(body: &[u64]) -> Option<Self> {
                let (code, body) = body.split_first()?;
                let mut body = body;
                let decoded = match code {
                    $($code => {
                        $(let ([$field], rest) = body.split_first_chunk::<1>()?; body = rest;)*
                        $(let $bytes = decode_bytes(&mut body)?;)?
                        Self::$variant { $($field: *$field,)* $($bytes,)? }
                    })*
                    _ => return None,
                };
                body.is_empty().then_some(decoded)
            }
        }
    };
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u64>) {
    out.push(bytes.len() as u64);
    let (whole, rest) = bytes.as_chunks::<8>();
    out.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        out.push(u64::from_ne_bytes(last));
    }
}

fn decode_bytes(body: &mut &[u64]) -> Option<Vec<u8>> {
    let (count, rest) = body.split_first()?;
    let count = usize::try_from(*count).ok().filter(|count| *count <= CALL_BYTES_MAX)?;
    let (words, rest) = rest.split_at_checked(count.div_ceil(8))?;
    *body = rest;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(count);
    Some(bytes)
}

calls! {
    /// What a client asks.
    Call {
        /// The first call of a connection: the answer to the challenge, and a challenge in turn.
        1 Hello { proof0, proof1, proof2, proof3, nonce0, nonce1, nonce2, nonce3 },

        // Of regions.
        /// Creates a region, and opens it for this connection.
        16 Create { node, size, there },
        /// Opens a region for this connection.
        17 Open { node },
        /// The same, if no other has it open.
        18 OpenAlone { node },
        /// Lets others open the region that this connection has alone.
        19 Share {},
        /// Holds a region for this connection, alone or not.
        20 Hold { node, alone },
        /// Whether the region that this connection holds is open.
        21 InUse {},
        /// Whose other connections have the region open that this one has open or holds.
        28 Users {},
        /// Provides all memory of the region that this connection has open, in the background.
        29 ProvideAll {},
        /// The first words of a region.
        22 Beginning { node },
        /// Removes a region.
        23 Remove { node },
        /// Removes the region of a node, if it is this one, although it may be in use.
        27 RemoveRegion { node, region },
        /// The living compute nodes of the region that this connection has open, from one on.
        24 ComputeNodes { first },
        /// How much room there is.
        25 Room {},
        /// The state of an endpoint of the region that this connection has open.
        26 PeerState { who },

        // Of a session.
        /// From now on the attachment with this number is this region.
        32 Attach { attachment, region },
        /// The identity of the session.
        33 Identity {},
        /// Whether an endpoint is dead.
        34 IsDead { who },
        /// Shuts an endpoint out, if the agent's lease rule permits it.
        35 ShutOut { who },
        /// Provides the memory of a span.
        36 Provide { at, size },
        /// Returns the memory of a span to the host.
        37 Discard { at, size },
        /// Exports a region.
        38 Export { size, kind, domain, lifetime },
        /// Reaches an exported region.
        39 ReachExport { at },
        /// Reaches an exported region if a word of it is this one.
        49 ReachExportIf { at, word },
        /// The mailbox of the session.
        40 Mailbox {},
        /// As which client it sends.
        41 Sign { slot, epoch },
        /// Sends a message.
        42 Send { to } bytes,
        /// The oldest message that has arrived.
        43 Receive {},
        /// Names a session of this client with another agent, which ends when this one does.
        44 Elsewhere { agent, session } address,
        /// Whether an endpoint is dead, but for its sessions with other agents.
        47 HasEnded { who },
        /// No client of this session's pool will use a region of the agent with this address.
        46 Forsake {} address,
        /// Turns this connection into a watch of a region that a session exports.
        45 Watch { session, at },

        // Of agents.
        /// Ends a session of this agent.
        48 EndSession { agent, session },
    }
}

calls! {
    /// What an agent answers.
    Answer {
        1 Welcome { agent, session, boot, clock, proof0, proof1, proof2, proof3 },
        2 Number { number },
        3 Opened { region, size, lifetime, there, is_volatile },
        4 Beginning { size } words,
        5 Attributes { size, kind, domain, lifetime },
        6 Message { from, slot, epoch } text,
        7 Numbers { next } numbers,
        8 Room { left, capacity },
        9 Watching { lease_ms, size },
        /// Addresses, separated by spaces.
        10 Users {} addresses,
        /// Another process has it in a way that excludes this: ask again.
        16 Busy {},
        17 Absent {} why,
        18 Exists {},
        19 NoRoom { size } why,
        20 NoExport {} why,
        21 Refused {} why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written_and_no_other_words_are_taken_for_one() {
        let calls = [
            Call::Room {},
            Call::Create { node: 1, size: 2, there: 3 },
            Call::Send { to: 7, bytes: b"eleven byte".to_vec() },
            Call::Send { to: 7, bytes: Vec::new() },
        ];
        for call in calls {
            let mut body = Vec::new();
            call.encode(&mut body);
            assert_eq!(Call::decode(&body), Some(call));
            (0..body.len()).for_each(|words| assert_eq!(Call::decode(&body[..words]), None));
            body.push(0);
            assert_eq!(Call::decode(&body), None);
        }
        assert_eq!(Call::decode(&[42, 1, u64::MAX]), None);
        assert_eq!(Call::decode(&[99]), None);
    }
}
