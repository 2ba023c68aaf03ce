"""The lab of a sandbox: it disturbs the calls of an app, records them and grades the app.

- a call on its way: `server`; what happens before it: `events`; what is kept of it: `recording`
- what each rehearsal plans, and how it is graded: `rules`, `evidence`, `grading`, `advice`
- starting, ending and showing rehearsals: `service`, `endpoints`, `pages`, `records`, `store`
"""
