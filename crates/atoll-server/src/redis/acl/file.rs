//! Users in a file.
//!
//! ```text
//! user alice on #2bd806c9... ~cache:* resetchannels -@all +get
//! ```
//!
//! A file is read as a whole or not at all. It is written beside its place and then moved there, so
//! that it is the old one or the new one whatever happens. A file that cannot be read as users is
//! not overwritten: a person has written it, and would lose it.

use super::user::{User, joined};
use super::{NAME_BYTES_MAX, RuleError, USERS_MAX, has_blanks};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most bytes of a file.
const BYTES_MAX: u64 = 64 << 20;

/// Why users were not read or saved.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("Error loading ACLs, opening file '{}': {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Lines of it are no users.
    #[error("{0}WARNING: ACL errors detected, no change to the previously active ACL rules was performed")]
    Invalid(String),
    /// It is not overwritten.
    #[error("the file has lines that are no users, so it stays as it is: {0}correct it, or remove it")]
    Kept(String),
    /// The file cannot be written.
    #[error("There was an error trying to save the ACLs to '{}': {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// The users of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<(Vec<u8>, User)>, FileError> {
    let read = || {
        let mut text = Vec::new();
        File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut text)?;
        match text.len() as u64 > BYTES_MAX {
            true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 64 MiB")),
            false => Ok(text),
        }
    };
    let text = read().map_err(|error| FileError::Open { path: path.to_owned(), error })?;
    parse(&text, &path.display().to_string()).map_err(FileError::Invalid)
}

/// Users, one a line; or what is wrong with all lines. `place` is what errors call the text.
pub(super) fn parse(text: &[u8], place: &str) -> Result<Vec<(Vec<u8>, User)>, String> {
    let (mut users, mut names, mut errors) = (Vec::new(), HashSet::new(), String::new());
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let line = trimmed(line, b" \t\r");
        if line.is_empty() {
            continue;
        }
        let mut words = line.split(|byte| *byte == b' ');
        let (first, name) = (words.next(), words.next());
        let (Some(b"user"), Some(name)) = (first, name) else {
            errors += &format!("{place}:{number} should start with user keyword followed by the username. ");
            continue;
        };
        if has_blanks(name) || name.len() > NAME_BYTES_MAX {
            let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned();
            errors += &format!("'{place}:{number}: username '{name}' contains invalid characters. ");
            continue;
        }
        if !names.insert(name) {
            let name = String::from_utf8_lossy(name);
            errors += &format!("WARNING: Duplicate user '{name}' found on line {number}. ");
            continue;
        }
        if names.len() > USERS_MAX {
            errors += &format!("{place}:{number}: there are more than {USERS_MAX} users. ");
            break;
        }
        match made_by(words, place, number) {
            Ok(user) => users.push((name.to_vec(), user)),
            Err(why) => errors += &why,
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors) }
}

/// A text without these bytes at its ends.
fn trimmed<'t>(text: &'t [u8], ends: &[u8]) -> &'t [u8] {
    let start = text.iter().position(|byte| !ends.contains(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !ends.contains(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// The user that rules make, or what is wrong with them: a syntax error is told once.
fn made_by<'r>(rules: impl Iterator<Item = &'r [u8]>, place: &str, number: i32) -> Result<User, String> {
    let rules =
        joined(rules).map_err(|_| format!("{place}:{number}: Unmatched parenthesis in selector definition. "))?;
    let (mut user, mut errors, mut has_other) = (User::default(), String::new(), false);
    let total: usize = rules.iter().map(|rule| rule.len() + 1).sum();
    if total > super::RULES_BYTES_MAX {
        return Err(format!("{place}:{number}: {}. ", RuleError::TooLong));
    }
    for rule in rules {
        let rule = trimmed(&rule, b"\t\r");
        match user.apply_all([rule].into_iter()) {
            Ok(()) => {}
            Err((_, RuleError::Unknown)) => {
                let rule = String::from_utf8_lossy(rule);
                errors += &format!("{place}:{number}: Error in applying operation '{rule}': {}. ", RuleError::Unknown);
            }
            Err((_, why)) if !std::mem::replace(&mut has_other, true) => {
                errors += &format!("{place}:{number}: {why}. ");
            }
            Err(_) => {}
        }
    }
    if errors.is_empty() { Ok(user) } else { Err(errors) }
}

/// The lines of users, as ACL LIST and a file have them.
pub(crate) fn line(name: &[u8], user: &User) -> Vec<u8> {
    [b"user ", name, b" ", &user.describe()].concat()
}

/// Writes a file anew.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), FileError> {
    let failed = |error| FileError::Write { path: path.to_owned(), error };
    // A link stays a link.
    let place = match fs::canonicalize(path) {
        Ok(place) => place,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => path.to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let present = match fs::metadata(&place) {
        Ok(present) => Some(present),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if present.is_some() {
        match read(&place) {
            Ok(_) => {}
            Err(FileError::Invalid(why)) => return Err(FileError::Kept(why)),
            Err(FileError::Open { error, .. } | FileError::Write { error, .. }) => return Err(failed(error)),
            Err(kept @ FileError::Kept(_)) => return Err(kept),
        }
    }
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = place.with_file_name(name);
    let replace = || {
        // One that a process of this number has left.
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        if let Some(present) = present {
            file.set_permissions(present.permissions())?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&temporary, &place)?;
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    replace().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(users: &[(Vec<u8>, User)]) -> Vec<String> {
        users.iter().map(|(name, user)| String::from_utf8(line(name, user)).unwrap()).collect()
    }

    #[test]
    fn users_are_read_as_they_were_written() {
        let text = b"user a on  nopass ~a* (+get\t~x) \r\n\n\t\nuser b off\nuser  on";
        let users = parse(text, "f").unwrap();
        assert_eq!(
            lines(&users),
            [
                "user a on nopass ~a* resetchannels -@all (~x resetchannels -@all +get)",
                "user b off resetchannels -@all",
                "user  on resetchannels -@all",
            ]
        );
        let again = parse(lines(&users).join("\n").as_bytes(), "f").unwrap();
        assert_eq!(lines(&again), lines(&users));
    }

    #[test]
    fn every_line_that_is_no_user_is_told() {
        let text = b"user a +foo e +bar f\n# b\nuser\nuser a\nuser q\tz on\nuser c (+get\nuser d on";
        let unknown = "Unknown command or category name in ACL. ";
        let expected = format!(
            "f:1: Error in applying operation '+foo': {unknown}f:1: Syntax error. f:1: Error in applying operation \
             '+bar': {unknown}f:2 should start with user keyword followed by the username. f:3 should start with user \
             keyword followed by the username. WARNING: Duplicate user 'a' found on line 4. 'f:5: username 'q\tz' \
             contains invalid characters. f:6: Unmatched parenthesis in selector definition. "
        );
        assert_eq!(parse(text, "f").unwrap_err(), expected);
        let long = format!("user a ~{}", "k".repeat(super::super::RULES_BYTES_MAX));
        assert!(parse(long.as_bytes(), "f").unwrap_err().contains("64 KiB"));
        let many: String = (0..=USERS_MAX).map(|number| format!("user {number}\n")).collect();
        assert!(parse(many.as_bytes(), "f").unwrap_err().contains("more than 10000 users"));
    }

    #[test]
    fn a_file_is_replaced_and_one_that_is_no_users_stays() {
        let folder = std::env::temp_dir().join(format!("atoll-acl-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, link) = (folder.join("users"), folder.join("link"));
        write(&path, b"user a on\n").unwrap();
        write(&path, b"user b on\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, b"user c on\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"user c on\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::write(&path, b"# mine\n").unwrap();
        let why = write(&path, b"user d on\n").unwrap_err().to_string();
        assert!(why.contains("stays as it is"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), b"# mine\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left there");
        assert!(write(&folder.join("absent/users"), b"").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
