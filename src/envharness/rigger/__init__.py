"""EnvRigger: observe a policy, diagnose it, write a component, validate it with fresh rollouts."""
