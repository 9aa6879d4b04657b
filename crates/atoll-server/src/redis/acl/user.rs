//! A user: who may authenticate as it, and what its selectors permit.
//!
//! | rule | effect |
//! |---|---|
//! | `on`, `off` | connections may authenticate as this user, or may not |
//! | `>password`, `#hash` | adds a password; it ends `nopass` |
//! | `<password`, `!hash` | removes a password |
//! | `nopass` | any password is right |
//! | `resetpass` | no password is right |
//! | `(rule ...)` | adds a selector, made by these rules |
//! | `clearselectors` | removes the selectors that were added |
//! | `reset` | makes the user as if it were new, but for a flag that says `sanitize-payload` |
//! | any other | changes the first selector: see `selector` |
//!
//! A command may run if one selector permits it. `sanitize-payload` and `skip-sanitize-payload` are
//! noted: this server restores nothing.
//!
//! Differences from Redis: a rule with a NUL byte is refused, but for a password. So are rules
//! whose description would be read as other rules: a first argument with blanks, and within
//! parentheses a rule with a quote, or with a parenthesis at its end. A user, and the rules of one
//! change, have at most [`RULES_BYTES_MAX`] bytes.

use super::password::Password;
use super::selector::{Call, Selector};
use super::{Denial, RULES_BYTES_MAX, RuleError};
use crate::redis::command::Id;
use crate::redis::resp::{Args, words};

/// A user, as it was at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Whether connections may authenticate as this user.
    is_on: bool,
    /// Whether any password is right; then there are none.
    has_nopass: bool,
    /// What was said of payloads to restore.
    sanitizes: Option<bool>,
    passwords: Vec<Password>,
    /// The first one is changed by rules without parentheses. Never empty.
    selectors: Vec<Selector>,
}

impl Default for User {
    /// One that may do nothing.
    fn default() -> Self {
        let selectors = vec![Selector::default()];
        Self { is_on: false, has_nopass: false, sanitizes: None, passwords: Vec::new(), selectors }
    }
}

impl User {
    /// One that may do everything, and needs no password.
    pub fn free() -> Self {
        let mut user = Self::default();
        for rule in ["on", "nopass", "~*", "&*", "+@all"] {
            user.apply(rule.as_bytes()).expect("these rules are valid");
        }
        user
    }

    /// Changes it by rules, all or none. The error names the rule.
    pub fn apply_all<'r>(&mut self, rules: impl Iterator<Item = &'r [u8]>) -> Result<(), (Vec<u8>, RuleError)> {
        let (mut changed, mut bytes) = (self.clone(), 0);
        for rule in rules {
            bytes += rule.len() + 1;
            let applied = if bytes > RULES_BYTES_MAX { Err(RuleError::TooLong) } else { changed.apply(rule) };
            applied.map_err(|why| (rule.to_vec(), why))?;
            if changed.bytes() > RULES_BYTES_MAX {
                return Err((rule.to_vec(), RuleError::TooLong));
            }
        }
        *self = changed;
        Ok(())
    }

    /// Changes it by one rule.
    fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("sanitize-payload") => self.sanitizes = Some(true),
            _ if is("skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is("nopass") => (self.has_nopass, self.passwords) = (true, Vec::new()),
            _ if is("resetpass") => (self.has_nopass, self.passwords) = (false, Vec::new()),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => *self = Self { sanitizes: Some(true), ..Self::default() },
            [b'>', clear @ ..] => self.add(Password::of(clear)),
            [b'#', digits @ ..] => self.add(Password::from_hex(digits).ok_or(RuleError::BadHash)?),
            [b'<', clear @ ..] => self.remove(Password::of(clear))?,
            [b'!', digits @ ..] => self.remove(Password::from_hex(digits).ok_or(RuleError::BadHash)?)?,
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::default();
                for rule in words(inner).filter(|_| !inner.contains(&0)).ok_or(RuleError::Syntax)? {
                    // A description would be read as something else.
                    if rule.ends_with(b")") || rule.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
                        return Err(RuleError::Unwritable);
                    }
                    selector.apply(&rule)?;
                }
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn add(&mut self, password: Password) {
        self.has_nopass = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove(&mut self, password: Password) -> Result<(), RuleError> {
        let before = self.passwords.len();
        self.passwords.retain(|own| *own != password);
        if self.passwords.len() == before { Err(RuleError::NoSuchPassword) } else { Ok(()) }
    }

    /// Makes this its only password, or any password right.
    pub(super) fn set_password(&mut self, password: Option<Password>) {
        self.has_nopass = password.is_none();
        self.passwords = password.into_iter().collect();
    }

    /// What it takes of memory, about.
    fn bytes(&self) -> usize {
        self.passwords.len() * 32 + self.selectors.iter().map(Selector::bytes).sum::<usize>()
    }

    /// Whether any password is right.
    pub(super) fn has_nopass(&self) -> bool {
        self.has_nopass
    }

    /// Whether connections that have not authenticated are this user.
    pub(super) fn is_open(&self) -> bool {
        self.has_nopass && self.is_on
    }

    /// Whether this is one of its passwords and it is on. All passwords are compared, whichever is
    /// right.
    pub(super) fn is_right(&self, password: &Password) -> bool {
        let found = self.passwords.iter().fold(false, |found, own| found | own.is(password));
        self.is_on && (self.has_nopass || found)
    }

    /// Whether it may do everything.
    pub(super) fn is_free(&self) -> bool {
        self.selectors.iter().any(Selector::is_free)
    }

    /// Whether it may run a command; if not, why: of several selectors, that which came nearest.
    pub(crate) fn check(&self, id: Id, args: Args<'_>) -> Result<(), Denial> {
        let call = Call::new(id, args);
        let mut nearest = Denial::Command;
        for selector in &self.selectors {
            match selector.check(&call) {
                Ok(()) => return Ok(()),
                Err(denial) => nearest = nearest.max(denial),
            }
        }
        Err(nearest)
    }

    /// Whether it may use a channel, or subscribe to a pattern.
    pub(crate) fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.permits_channel(channel, is_pattern))
    }

    /// The words that say how it is: on or off, and how it treats passwords.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let words = [
            (true, if self.is_on { "on" } else { "off" }),
            (self.has_nopass, "nopass"),
            (self.sanitizes == Some(false), "skip-sanitize-payload"),
            (self.sanitizes == Some(true), "sanitize-payload"),
        ];
        words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word)
    }

    /// The hashes of its passwords.
    pub(crate) fn hashes(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(Password::hex)
    }

    /// What its selectors permit, in words; that of rules without parentheses comes first.
    pub(crate) fn selectors(&self) -> impl ExactSizeIterator<Item = [(&'static str, Vec<u8>); 3]> {
        self.selectors.iter().map(|selector| {
            let mut texts = [const { Vec::new() }; 3];
            selector.describe_commands(&mut texts[0]);
            selector.describe_keys(&mut texts[1]);
            selector.describe_channels(&mut texts[2]);
            let [commands, keys, channels] = texts;
            [("commands", commands), ("keys", keys), ("channels", channels)]
        })
    }

    /// Rules that make the same of a new user.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for hash in self.hashes() {
            text.extend_from_slice(format!("#{hash} ").as_bytes());
        }
        self.selectors[0].describe(&mut text);
        for selector in &self.selectors[1..] {
            text.extend_from_slice(b" (");
            selector.describe(&mut text);
            text.push(b')');
        }
        text
    }
}

/// Joins the arguments of a selector that was written as several: `(+get`, `~a)`. The error is the
/// argument that opens a parenthesis which is not closed.
pub fn joined<'a>(rules: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut all = Vec::new();
    // The argument that opens a parenthesis, and what has been joined since.
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        match &mut open {
            _ if rule.first() == Some(&b'(') && rule.last() != Some(&b')') => open = Some((rule, rule.to_vec())),
            Some((_, joined)) => {
                joined.push(b' ');
                joined.extend_from_slice(rule);
                if rule.last() == Some(&b')') {
                    all.extend(open.take().map(|(_, joined)| joined));
                }
            }
            None => all.push(rule.to_vec()),
        }
    }
    match open {
        Some((first, _)) => Err(first),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made_by(rules: &[&str]) -> Result<User, (Vec<u8>, RuleError)> {
        let mut user = User::default();
        user.apply_all(rules.iter().map(|rule| rule.as_bytes()))?;
        Ok(user)
    }

    fn described(user: &User) -> String {
        String::from_utf8(user.describe()).unwrap()
    }

    /// A user made by the description of another one.
    fn again(user: &User) -> User {
        let text = user.describe();
        let rules = joined(text.split(|byte| *byte == b' ')).unwrap();
        let mut other = User::default();
        other.apply_all(rules.iter().map(Vec::as_slice)).unwrap();
        other
    }

    #[test]
    fn rules_change_passwords() {
        let hash = Password::of(b"one").hex();
        let user = made_by(&["on", ">one", ">two", ">one", &format!("#{hash}")]).unwrap();
        assert_eq!(user.hashes().len(), 2);
        assert!(user.is_right(&Password::of(b"one")) && !user.is_right(&Password::of(b"three")));
        let without = made_by(&["on", ">one", ">two", "<two", &format!("!{hash}")]).unwrap();
        assert!(!without.is_right(&Password::of(b"one")) && !without.is_right(&Password::of(b"")));
        let any = made_by(&["on", ">one", "nopass"]).unwrap();
        assert!(any.is_right(&Password::of(b"")) && any.hashes().len() == 0);
        assert!(!made_by(&["on", "nopass", ">one"]).unwrap().is_right(&Password::of(b"")));
        assert!(!made_by(&["nopass"]).unwrap().is_right(&Password::of(b"")), "the user is off");
        assert_eq!(made_by(&["<one"]).unwrap_err().1, RuleError::NoSuchPassword);
        assert_eq!(made_by(&["#123"]).unwrap_err().1, RuleError::BadHash);
    }

    #[test]
    fn an_error_changes_nothing_and_names_its_rule() {
        let mut user = User::free();
        let rules = ["off", "resetkeys", "+nosuch"];
        let (rule, why) = user.apply_all(rules.iter().map(|rule| rule.as_bytes())).unwrap_err();
        assert_eq!((rule.as_slice(), why), (&b"+nosuch"[..], RuleError::Unknown));
        assert_eq!(user, User::free());
    }

    #[test]
    fn a_user_is_bounded() {
        let long = format!("~{}", "k".repeat(RULES_BYTES_MAX));
        assert_eq!(made_by(&[&long]).unwrap_err().1, RuleError::TooLong);
        assert!(made_by(&[&long[..RULES_BYTES_MAX / 2]]).is_ok());
        let mut user = User::default();
        let grown = (0..1000).find_map(|_| user.apply_all([&b"(+get)"[..]].into_iter()).err());
        assert_eq!(grown.unwrap().1, RuleError::TooLong);
        let patterns: Vec<String> = (0..=super::super::PATTERNS_MAX).map(|n| format!("~{n}")).collect();
        let (mut user, mut refused) = (Selector::default(), 0);
        patterns.iter().for_each(|rule| refused += usize::from(user.apply(rule.as_bytes()).is_err()));
        assert_eq!(refused, 1);
    }

    #[test]
    fn a_selector_may_be_written_as_several_arguments() {
        let all = |rules: &[&'static str]| joined(rules.iter().map(|rule| rule.as_bytes()));
        assert_eq!(all(&["on", "(+get", "~a", "%R~b)", "off"]).unwrap(), [&b"on"[..], b"(+get ~a %R~b)", b"off"]);
        assert_eq!(all(&["(+get ~a)", "()"]).unwrap().len(), 2);
        assert_eq!(all(&["on", "(+get", "~a"]).unwrap_err(), b"(+get");
        assert_eq!(
            described(&made_by(&["(+get '~a' \"%W~b\")"]).unwrap()),
            "off resetchannels -@all (~a %W~b resetchannels -@all +get)"
        );
        assert_eq!(made_by(&["(+get 'a)"]).unwrap_err().1, RuleError::Syntax);
        for rule in ["(~\"a'b\")", "(~a(b) +get)", "(+select|0))"] {
            assert_eq!(made_by(&[rule]).unwrap_err().1, RuleError::Unwritable, "{rule}");
        }
        assert_eq!(made_by(&["(+get\0 ~x)"]).unwrap_err().1, RuleError::Syntax);
        assert_eq!(made_by(&["(on)"]).unwrap_err().1, RuleError::Syntax);
        assert_eq!(made_by(&["("]).unwrap_err().1, RuleError::Syntax);
    }

    #[test]
    fn reset_makes_a_new_user() {
        let rules = ["on", "nopass", "allkeys", "allchannels", "+@all", "(+get)", "skip-sanitize-payload", "reset"];
        assert_eq!(described(&made_by(&rules).unwrap()), "off sanitize-payload resetchannels -@all");
        assert_eq!(described(&User::free()), "on nopass ~* &* +@all");
        assert!(User::free().is_free() && !User::default().is_free());
    }

    fn rule() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "on",
            "off",
            "nopass",
            "resetpass",
            "reset",
            "allkeys",
            "~*",
            "resetkeys",
            "allchannels",
            "&*",
            "resetchannels",
            "+@all",
            "-@all",
            "+@read",
            "-@write",
            "+@connection",
            "-@slow",
            "+get",
            "-get",
            "+client|list",
            "-client",
            "+select|0",
            "~a*",
            "%R~b",
            "%W~b",
            "%RW~c",
            "&c",
            "(+get ~x)",
            "(+@all -set &y)",
            "clearselectors",
            ">p",
            "<p",
        ]);
        prop_oneof![
            words.prop_map(|word| word.as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..24),
            "[-+~%&(!#<>][ -~]{0,12}[)|@]?".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn any_rules_make_a_user_that_its_description_makes_too(
            rules in proptest::collection::vec(rule(), 0..24),
        ) {
            let mut user = User::default();
            for rule in &rules {
                let before = user.clone();
                if user.apply_all([rule.as_slice()].into_iter()).is_err() {
                    prop_assert_eq!(&user, &before);
                }
            }
            prop_assert_eq!(again(&user), user);
        }
    }
}
