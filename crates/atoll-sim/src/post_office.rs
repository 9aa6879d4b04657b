//! The messages that are on their way, and how often a run loses, doubles and delays them.

use crate::{Random, Relaxations};
use atoll_fabric::{Mailbox, Message};
use std::collections::BTreeMap;

/// The most messages from one endpoint to another that chance loses in a row. So of 49 requests one
/// arrives whose answer arrives, too: every seventh request does, and every seventh answer.
const LOST_IN_A_ROW_MAX: u32 = 6;

/// Messages on their way, and how they fare.
pub(crate) struct PostOffice {
    /// By the number in their timers; `None` once arrived.
    pub(crate) mails: Vec<Option<Mail>>,
    pub(crate) mails_free: Vec<u32>,
    pub(crate) sent: u64,
    pub(crate) chances: MailChances,
    /// The longest delay is two to the power of this, in nanoseconds.
    pub(crate) delay_bits_max: u32,
    pub(crate) random: Random,
    /// Messages between these endpoints are lost if they are sent before a time: from, to, until.
    pub(crate) cuts: Vec<(Mailbox, Mailbox, u64)>,
    /// How many of the last messages from one endpoint to another were lost by chance.
    lost_in_a_row: BTreeMap<(Mailbox, Mailbox), u32>,
}

/// How often a run loses, doubles and delays messages, in 1024ths.
pub(crate) struct MailChances {
    pub(crate) lose: u32,
    pub(crate) double: u32,
    pub(crate) delay: u32,
}

impl MailChances {
    fn drawn(relaxations: Relaxations, random: &mut Random) -> Self {
        Self {
            lose: random.pick_if(relaxations.lose_messages, &[0, 16, 128, 512]),
            double: random.pick_if(relaxations.double_messages, &[0, 16, 256, 768]),
            delay: random.pick_if(relaxations.delay_messages, &[16, 256, 1024]),
        }
    }
}

pub(crate) struct Mail {
    /// Which message of the run it is.
    pub(crate) number: u64,
    pub(crate) to: u32,
    pub(crate) message: Message,
}

impl PostOffice {
    pub(crate) fn new(relaxations: Relaxations, seed: u64) -> Self {
        let mut random = Random::stream(seed, u64::MAX - 1);
        let chances = MailChances::drawn(relaxations, &mut random);
        let delay_bits_max = random.pick(&[10, 14, 21, 31]);
        Self {
            mails: Vec::new(),
            mails_free: Vec::new(),
            sent: 0,
            chances,
            delay_bits_max,
            random,
            cuts: Vec::new(),
            lost_in_a_row: BTreeMap::new(),
        }
    }

    /// Whether the next message from one endpoint to another is lost.
    pub(crate) fn loses(&mut self, from: Mailbox, to: Mailbox) -> bool {
        let is_drawn = self.random.chance(self.chances.lose);
        let lost = self.lost_in_a_row.entry((from, to)).or_default();
        *lost = if is_drawn && *lost < LOST_IN_A_ROW_MAX { *lost + 1 } else { 0 };
        *lost > 0
    }

    pub(crate) fn add(&mut self, mail: Mail) -> u32 {
        let id = self.mails_free.pop().unwrap_or_else(|| {
            self.mails.push(None);
            self.mails.len() as u32 - 1
        });
        self.mails[id as usize] = Some(mail);
        id
    }

    /// The bytes of a message that is on its way.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        &self.mails[id as usize].as_ref().expect("a message is there until it has arrived").message.bytes
    }

    /// From which endpoint to which a message is on its way, and its length.
    pub(crate) fn on_the_way(&self, id: u32) -> ((u32, u32), u64) {
        let mail = self.mails[id as usize].as_ref().expect("a message is there until it has arrived");
        let from = port_of(mail.message.from).expect("an endpoint sent it");
        ((from, mail.to), mail.message.bytes.len() as u64)
    }
}

pub(crate) fn mailbox_of(port: u32) -> Mailbox {
    Mailbox(u64::from(port) + 1)
}

pub(crate) fn port_of(mailbox: Mailbox) -> Option<u32> {
    u32::try_from(mailbox.0.checked_sub(1)?).ok()
}
