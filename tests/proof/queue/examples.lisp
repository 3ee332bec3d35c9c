; Histories, of which only the steps are given: z3 finds who takes them, and the rest.

; Without the rule, the step does not preserve the sentence of the invariant, and the property
; breaks after the given steps.

(breaks from-sending (confirm trusted) exclusion
  join learn-first send renew tick confirm tick expire join learn-first)
(breaks ends-at-deadline (tick holder-in-time) exclusion
  join learn-first tick expire join learn-first)
(breaks proved-grant (learn-first holder-in-time) exclusion
  join expire join learn-first learn-first)
(breaks missing-reported (watch watched) no-lost-wake-up
  join delete join learn-behind watch)
(breaks own-key (grant-first excused) exclusion
  join delete join learn-unproved grant-first learn-first)
(breaks first (grant-gone no-violation) no-early-grant
  join join join learn-behind watch delete notify grant-gone)
(breaks seen (grant-gone no-violation) no-early-grant
  join join delete join learn-behind hint grant-gone)
(breaks not-behind (watch own-key) no-false-alarm
  join learn-unproved find-evicted)
(breaks one-key (join one-key) no-orphan
  join lose-reply join)
(breaks until-confirmed (lose-leave accounted) no-orphan
  join learn-unproved lose-leave)
(breaks look-again (leave in-doubt) no-orphan
  join-late leave apply-late)
(breaks allowance (renew to-be-trusted) exclusion
  join learn-first send renew confirm tick expire join learn-first)

; The situations are reached after these steps.

(reached handover join learn-first join learn-behind watch leave notify grant-gone)
(reached expiry-with-successor
  join learn-first join learn-behind watch lose expire notify grant-gone)
(reached cancel-in-the-middle
  join join join learn-behind learn-behind watch leave notify stay-behind)
(reached late-write-cleaned-up join-late leave apply-late search)
(reached deletion-of-a-holders-key join learn-first delete)
(reached grant-before-notice join learn-first delete join learn-first)
(reached renewal join learn-first send renew tick confirm)
