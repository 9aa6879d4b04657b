//! What the contract says of messages: see [`Messenger`].

use super::{Case, nothing, read, wait_for, word, write};
use crate::{Endpoint, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger, Sender};

pub(super) fn cases<E: Endpoint + Messenger + 'static>() -> Vec<Case<E>> {
    vec![
        Case {
            name: "a_message_arrives_whole_or_not_at_all",
            clients: CLIENTS,
            nodes: 1,
            play: |e, c, r| Box::pin(exchange(e, c, r)),
            verify: nothing,
        },
        Case {
            name: "what_is_sent_to_an_endpoint_that_is_gone_arrives_at_none_that_comes_after",
            clients: 2,
            nodes: 1,
            play: |e, c, _| match c {
                0 => Box::pin(go(e)),
                _ => Box::pin(come(e)),
            },
            verify: nothing,
        },
        Case {
            name: "what_completed_before_a_message_was_sent_is_visible_to_whoever_gets_it",
            clients: 2,
            nodes: 1,
            play: |e, c, r| match c {
                0 => Box::pin(tell(e, r)),
                _ => Box::pin(be_told(e)),
            },
            verify: nothing,
        },
    ]
}

const CLIENTS: usize = 3;

/// Where a client says where it receives.
async fn publish<E: Endpoint + Messenger>(endpoint: &E, client: usize) {
    write(endpoint, word(client as u64), endpoint.mailbox().0).await;
}

async fn mailbox_of<E: Endpoint>(endpoint: &E, client: usize) -> Mailbox {
    Mailbox(wait_for(endpoint, word(client as u64), 1).await)
}

/// A message that says from whom to whom it is, and that is of no other length and no other bytes.
fn letter(from: usize, to: usize, round: u64) -> Vec<u8> {
    let bytes = [0, 1, 7, 100, MESSAGE_BYTES_MAX - 10][round as usize % 5];
    let mut letter = vec![from as u8, to as u8];
    letter.extend(round.to_le_bytes());
    letter.resize(10 + bytes, round as u8 ^ 0xa5);
    letter
}

/// As which client a client sends.
fn sender(client: usize) -> Sender {
    Sender { slot: client as u32, epoch: u32::MAX - client as u32 }
}

async fn exchange<E: Endpoint + Messenger>(endpoint: E, client: usize, rounds: u64) {
    endpoint.sign(sender(client));
    publish(&endpoint, client).await;
    let mut mailboxes = Vec::new();
    for other in 0..CLIENTS {
        mailboxes.push(mailbox_of(&endpoint, other).await);
    }
    let check = |message: Message| {
        let from = message.bytes[0] as usize;
        let round = u64::from_le_bytes(message.bytes[2..10].try_into().expect("eight bytes"));
        assert_eq!(message.bytes, letter(from, client, round), "not as it was sent, or not to this client");
        assert_eq!(message.from, mailboxes[from], "from another than its sender");
        assert_eq!(message.sender, sender(from), "as another client than its sender's");
        assert!(round < rounds, "invented");
    };
    for round in 0..rounds {
        for other in (0..CLIENTS).filter(|other| *other != client) {
            endpoint.send(mailboxes[other], &letter(client, other, round)).expect("it is short enough");
        }
        if let Some(message) = endpoint.receive_within(1000).await {
            check(message);
        }
    }
    let too_long = vec![0; MESSAGE_BYTES_MAX + 1];
    let refused = endpoint.send(mailboxes[0], &too_long);
    assert_eq!(refused, Err(MessageError::TooLong { bytes: MESSAGE_BYTES_MAX + 1 }));
    endpoint.send(Mailbox::NOBODY, b"to nobody").expect("what is sent to nobody is lost");
    endpoint.send(Mailbox(u64::MAX), b"to nobody").expect("what is sent to nobody is lost");
    while let Some(message) = endpoint.receive_within(100_000).await {
        check(message);
    }
}

const TOLD: u64 = 16;
const ENOUGH: u64 = 24;

async fn tell<E: Endpoint + Messenger>(endpoint: E, rounds: u64) {
    publish(&endpoint, 0).await;
    let other = mailbox_of(&endpoint, 1).await;
    for round in 1..=rounds {
        write(&endpoint, word(TOLD), round).await;
        // Asked again until there is an answer: either may be lost.
        loop {
            endpoint.send(other, &round.to_le_bytes()).expect("it is short enough");
            let answer = endpoint.receive_within(10_000).await;
            if answer.is_some_and(|answer| answer.bytes == round.to_le_bytes()) {
                break;
            }
        }
    }
    write(&endpoint, word(ENOUGH), 1).await;
}

async fn be_told<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 1).await;
    let other = mailbox_of(&endpoint, 0).await;
    while read(&endpoint, word(ENOUGH)).await == 0 {
        let Some(message) = endpoint.receive_within(5_000).await else { continue };
        let round = u64::from_le_bytes(message.bytes[..].try_into().expect("eight bytes"));
        let found = read(&endpoint, word(TOLD)).await;
        assert!(found >= round, "told of {round}, and what was written is {found}");
        endpoint.send(other, &message.bytes).expect("it is short enough");
    }
}

/// Client 0 receives until it is told to go.
async fn go<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 0).await;
    wait_for(&endpoint, word(ENOUGH), 1).await;
}

/// Client 1 has a mailbox only after client 0 is gone, and is sent what was for that.
async fn come<E: Endpoint + Messenger>(endpoint: E) {
    let gone = mailbox_of(&endpoint, 0).await;
    write(&endpoint, word(ENOUGH), 1).await;
    endpoint.pause(1_000_000).await;
    assert_ne!(endpoint.mailbox(), gone, "a mailbox is one endpoint's alone");
    for _ in 0..20 {
        endpoint.send(gone, b"to the one before").expect("it is short enough");
    }
    assert_eq!(endpoint.receive_within(1_000_000).await, None, "a message for another endpoint");
}
