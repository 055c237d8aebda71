//! The broker's end of its dispatcher.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command};

use punctual_client::grant::GrantId;
use punctual_linux::clock;
use punctual_model::{Duration, Service};
use rustix::event::{PollFd, PollFlags, poll};

use super::messages::{Account, News, Order, Program};
use crate::link::{Link, LinkError, MAX_LINK, Part};

/// The longest time that the dispatcher may take for an order: the kernel waits for others while it
/// moves a process between groups.
const PATIENCE: Duration = Duration::from_secs(5);

/// The broker's own dispatcher.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Waited for only if it can hold no programs: otherwise the broker ends when it does.
    child: Child,
    link: Link,
    /// Why it can hold no programs here. Then it has ended.
    unable: Option<String>,
    lost: Option<String>,
    /// News that came during the wait for an answer.
    early: VecDeque<News>,
    buffer: Vec<u8>,
}

impl Keeper {
    /// Starts a dispatcher whose budgets end late by at most `allowance`, and waits until it is ready
    /// or knows that it cannot work here.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer.
    pub(crate) fn start(command: Command, allowance: Service) -> io::Result<Self> {
        let (child, link) = Part::Dispatcher.spawn(command)?;
        let (early, buffer) = (VecDeque::new(), vec![0; MAX_LINK]);
        let mut keeper = Self { child, link, unable: None, lost: None, early, buffer };
        keeper.order(&Order::Begin { allowance: allowance.as_nanos() });
        match keeper.wait_for(|news| matches!(news, News::Begun(_))) {
            Ok(News::Begun(Ok(()))) => {}
            Ok(News::Begun(Err(why))) => {
                keeper.unable = Some(why);
                keeper.child.wait()?;
            }
            Ok(_) => unreachable!("it was waited for"),
            Err(why) => return Err(io::Error::other(why)),
        }
        Ok(keeper)
    }

    /// Returns why no program can be held here, if so.
    pub(crate) fn unable(&self) -> Option<&str> {
        self.unable.as_deref()
    }

    /// Has a program held, or held to other terms. When this returns it is.
    ///
    /// # Errors
    /// The reason in words; then it is an ordinary program, or as it was if its terms were to change.
    pub(crate) fn hold(&mut self, program: Program) -> Result<(), String> {
        if let Some(why) = &self.unable {
            return Err(why.clone());
        }
        let grant = program.grant;
        self.order(&Order::Hold(program));
        self.done(grant)
    }

    /// Has a program be an ordinary one. When this returns it is, if it was held. Returns what it used,
    /// if that is known.
    pub(crate) fn release(&mut self, grant: GrantId) -> Option<Account> {
        if self.unable.is_some() {
            return None;
        }
        self.order(&Order::Release(grant));
        let is_it = |news: &News| matches!(news, News::Released { grant: of, .. } if *of == grant);
        // A dispatcher that is lost has released all.
        match self.wait_for(is_it) {
            Ok(News::Released { used, .. }) => used,
            _ => None,
        }
    }

    /// Returns its next news, if there is any.
    pub(crate) fn news(&mut self) -> Option<News> {
        self.early.pop_front().or_else(|| self.receive())
    }

    /// Returns why the dispatcher holds nothing any more, if so.
    pub(crate) fn is_lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn done(&mut self, of: GrantId) -> Result<(), String> {
        match self.wait_for(|news| matches!(news, News::Done { grant, .. } if *grant == of))? {
            News::Done { outcome, .. } => outcome,
            _ => unreachable!("it was waited for"),
        }
    }

    /// Waits for certain news, and keeps others.
    fn wait_for(&mut self, is_it: impl Fn(&News) -> bool) -> Result<News, String> {
        let until = clock::now() + PATIENCE;
        loop {
            match self.receive() {
                Some(news) if is_it(&news) => return Ok(news),
                Some(news) => self.early.push_back(news),
                None if self.lost.is_some() => break,
                None if clock::now() >= until => {
                    self.lost = Some("it does not answer".into());
                }
                None => {
                    let left = until.saturating_since(clock::now());
                    let left = clock::timespec(left.as_nanos());
                    // Ignore errors: it is tried again, or time is up.
                    let _ = poll(&mut [PollFd::new(&self.link, PollFlags::IN)], Some(&left));
                }
            }
        }
        Err(format!("the dispatcher is lost: {}", self.lost.as_deref().unwrap_or_default()))
    }

    fn order(&mut self, order: &Order) {
        // It reads each order before it does the next, so there is room.
        if let Err(why) = self.link.send(order) {
            self.lost.get_or_insert(why.to_string());
        }
    }

    fn receive(&mut self) -> Option<News> {
        if self.unable.is_some() {
            return None;
        }
        match self.link.receive(&mut self.buffer) {
            Ok(news) => news,
            Err(LinkError::Full) => None,
            Err(why) => {
                self.lost.get_or_insert(why.to_string());
                None
            }
        }
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
