"""Policies as a run trains them: what each is, its service, its learner, its publications, and the SDK's objects.

The only package of training that knows the SDK, and it imports it when a service is opened, not before.
"""
